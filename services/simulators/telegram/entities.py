"""Entities of a text: offsets count UTF-16 code units, as everywhere on the platform."""

import re
from collections.abc import Iterator
from typing import Any

Entity = dict[str, Any]

_DETECTED = re.compile(
    r"(?P<url>https?://[^\s<>\"]+)"
    r"|(?P<email>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"|(?<![\w/])(?P<bot_command>/[A-Za-z0-9_]{1,64}(?:@[A-Za-z0-9_]{3,32})?)(?![\w/])"
    r"|(?<![\w@])(?P<mention>@[A-Za-z0-9_]{3,32})(?!\w)"
    r"|(?<![\w#])(?P<hashtag>#\w*[^\W\d]\w*)"
)
_CLOSED_TO_DETECTION = {"code", "pre", "text_link", "text_mention", "custom_emoji"}
_AFTER_A_LINK = ".,:;!?)]}'\""


def utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def with_detected(text: str, entities: list[Entity]) -> list[Entity]:
    """The given entities and those that the server finds by itself: links, addresses, commands, mentions, tags."""
    if not any(mark in text for mark in ("://", "@", "/", "#")):
        return entities
    closed = [
        (entity["offset"], entity["offset"] + entity["length"])
        for entity in entities
        if entity["type"] in _CLOSED_TO_DETECTION
    ]
    found = [
        entity
        for entity in _detected(text)
        if all(
            entity["offset"] + entity["length"] <= start or entity["offset"] >= end for start, end in closed
        )
    ]
    return sorted([*entities, *found], key=lambda entity: (entity["offset"], -entity["length"]))


def _detected(text: str) -> Iterator[Entity]:
    for match in _DETECTED.finditer(text):
        kind = str(match.lastgroup)
        shown = match.group()
        if kind == "url":
            shown = shown.rstrip(_AFTER_A_LINK)
        yield {"type": kind, "offset": utf16_length(text[: match.start()]), "length": utf16_length(shown)}


def trimmed(text: str, entities: list[Entity]) -> tuple[str, list[Entity]]:
    """The text without white space at its ends, as a send stores it; entities are moved and cut to fit."""
    shown = text.strip()
    if len(shown) == len(text):
        return text, entities
    skipped = utf16_length(text[: len(text) - len(text.lstrip())])
    length = utf16_length(shown)
    kept = []
    for entity in entities:
        start = max(entity["offset"] - skipped, 0)
        end = min(entity["offset"] - skipped + entity["length"], length)
        if start < end:
            kept.append({**entity, "offset": start, "length": end - start})
    return shown, kept
