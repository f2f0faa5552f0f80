"""A text parameter of a call becomes the text that people see, within the platform's limits."""

from typing import Any

from services.simulators.telegram import markdown
from services.simulators.telegram.entities import Entity, trimmed, utf16_length, with_detected
from services.simulators.telegram.errors import bad_request

MESSAGE_UNITS = 4096
CAPTION_UNITS = 1024
SOURCE_BYTES = 32768

Formatted = tuple[str, list[Entity]]


def message_text(params: dict[str, Any]) -> Formatted:
    """The `text` of a message: 1 to 4096 UTF-16 units after parsing; raises `ApiError`."""
    text, entities = formatted(params.get("text"), params.get("parse_mode"), params.get("entities"))
    if not text:
        raise bad_request("message text is empty")
    if utf16_length(text) > MESSAGE_UNITS:
        raise bad_request("message is too long")
    return text, entities


def draft_text(params: dict[str, Any]) -> Formatted:
    """As `message_text`, but a draft may be empty."""
    text, entities = formatted(params.get("text"), params.get("parse_mode"), params.get("entities"))
    if utf16_length(text) > MESSAGE_UNITS:
        raise bad_request("message is too long")
    return text, entities


def caption_text(params: dict[str, Any]) -> Formatted:
    """The `caption` of a file: at most 1024 UTF-16 units after parsing; raises `ApiError`."""
    given = params.get("caption_entities")
    text, entities = formatted(params.get("caption"), params.get("parse_mode"), given)
    if utf16_length(text) > CAPTION_UNITS:
        raise bad_request("message caption is too long")
    return text, entities


def formatted(text: Any, parse_mode: Any, entities: Any) -> Formatted:
    """The visible text and its entities, trimmed; `parse_mode` goes before `entities`. Raises `ApiError`."""
    source = text if isinstance(text, str) else ""
    if not source.isascii() and len(source.encode("utf-8", "surrogatepass")) > SOURCE_BYTES:
        raise bad_request("text is too long")
    if len(source) > SOURCE_BYTES:
        raise bad_request("text is too long")
    shown, found = _parsed(source.replace("\r", ""), parse_mode, entities)
    shown, found = trimmed(shown, found)
    return shown, with_detected(shown, found)


def _parsed(source: str, parse_mode: Any, entities: Any) -> Formatted:
    mode = str(parse_mode or "").lower()
    if mode == "markdownv2":
        try:
            return markdown.parse(source)
        except markdown.MarkupError as problem:
            raise bad_request(f"can't parse entities: {problem}") from problem
    if mode in {"html", "markdown"}:
        raise bad_request(f"the simulator reads MarkdownV2 only, not parse_mode {mode}")
    if mode:
        raise bad_request("unsupported parse_mode")
    return source, _given(source, entities)


def _given(text: str, entities: Any) -> list[Entity]:
    if not isinstance(entities, list):
        return []
    length = utf16_length(text)
    return [
        entity
        for entity in entities
        if entity["length"] > 0 and entity["offset"] >= 0 and entity["offset"] + entity["length"] <= length
    ]
