"""Parameters of a call, from any of the four request forms."""

from typing import Any

import orjson
from aiohttp import web

from services.simulators.telegram.errors import ApiError, bad_request
from services.simulators.telegram.media import Upload

Params = dict[str, Any]

_INTEGERS = frozenset({
    "message_id", "message_thread_id", "direct_messages_topic_id", "draft_id", "offset", "limit", "timeout",
    "max_connections", "duration", "width", "height",
})  # fmt: skip
_BOOLEANS = frozenset({
    "disable_notification", "protect_content", "allow_paid_broadcast", "can_stop", "keep_on_stop", "is_big",
    "drop_pending_updates", "has_spoiler", "show_caption_above_media", "disable_content_type_detection",
    "supports_streaming",
})  # fmt: skip
_NESTED = frozenset({
    "entities", "caption_entities", "link_preview_options", "reply_parameters", "reply_markup", "allowed_updates",
    "commands", "scope", "reaction", "suggested_post_parameters", "ephemeral_message_parameters", "rich_message",
})  # fmt: skip


async def read_params(request: web.Request) -> Params:
    """Parameters by name; raises `ApiError` for a body that cannot be read."""
    if request.method == "GET":
        return _from_text(dict(request.query))
    if request.content_type == "application/json":
        return _from_json(await request.read())
    if request.content_type == "multipart/form-data":
        return _from_text(await _parts(request))
    form = await request.post()
    return _from_text({**request.query, **form})


def _from_json(raw: bytes) -> Params:
    try:
        body = orjson.loads(raw) if raw else {}
    except orjson.JSONDecodeError as problem:
        raise bad_request("can't parse JSON object") from problem
    if not isinstance(body, dict):
        raise bad_request("object expected as JSON")
    chat = body.get("chat_id")
    if isinstance(chat, str):
        body["chat_id"] = _integer(chat)
    return body


async def _parts(request: web.Request) -> dict[str, Any]:
    form = await request.post()
    return {name: value if isinstance(value, str) else _upload(value) for name, value in form.items()}


def _upload(part: Any) -> Upload:
    if isinstance(part, web.FileField):
        return Upload(part.filename, part.content_type, part.file.read())
    return Upload("", "application/octet-stream", bytes(part))


def _from_text(fields: dict[str, Any]) -> Params:
    return {name: _typed(name, value) for name, value in fields.items()}


def _typed(name: str, value: Any) -> Any:
    """A text becomes what its name promises; one that does not read as that stays a text and is refused later."""
    if not isinstance(value, str):
        return value
    if name in _INTEGERS or name == "chat_id":
        return _integer(value)
    if name in _BOOLEANS:
        return {"true": True, "1": True, "false": False, "0": False}.get(value.lower(), value)
    if name in _NESTED:
        return _nested(name, value)
    return value


def _integer(text: str) -> int | str:
    digits = text.strip().removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else text


def _nested(name: str, value: str) -> Any:
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as problem:
        raise ApiError(400, f"Bad Request: can't parse {name} JSON object") from problem
