"""Lengths as platforms count them, and the places where a text may be cut."""

import unicodedata
from collections.abc import Callable, Iterator
from typing import Literal

Unit = Literal["utf16", "codepoints", "bytes"]

_ZERO_WIDTH_JOINER = "\u200d"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_REGIONAL_INDICATORS = range(0x1F1E6, 0x1F200)
_TAGS = range(0xE0020, 0xE0080)


def utf16_units(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def utf8_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


MEASURES: dict[Unit, Callable[[str], int]] = {
    "utf16": utf16_units,
    "codepoints": len,
    "bytes": utf8_bytes,
}


def well_formed(text: str) -> str:
    """`text` with surrogate pairs joined and lone surrogates replaced, so that it can be encoded."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def chunks(text: str, size: int) -> Iterator[str]:
    """`text` in pieces of about `size` code points, never more than twice that.

    What people see as one character stays whole, unless it alone is longer than `size`.
    """
    start = 0
    while len(text) - start > size:
        end = start + size
        while end < min(len(text), start + 2 * size) and _joined(text, start, end):
            end += 1
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def _joined(text: str, start: int, at: int) -> bool:
    """Whether the characters around `at` look like one: a close cut of the Unicode rules, without their tables."""
    before, after = text[at - 1], text[at]
    if _ZERO_WIDTH_JOINER in (before, after):
        return True
    if ord(after) in _SKIN_TONES or ord(after) in _TAGS or unicodedata.category(after) in {"Mn", "Me", "Mc"}:
        return True
    if ord(after) not in _REGIONAL_INDICATORS:
        return False
    run = at
    while run > start and ord(text[run - 1]) in _REGIONAL_INDICATORS:
        run -= 1
    return (at - run) % 2 == 1
