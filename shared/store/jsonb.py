"""Values on their way into Postgres, which cannot hold the null character in text or jsonb."""

import re
from typing import Any

import orjson

# An escaped null character has an odd number of backslashes before it; an even number is a text that shows one.
_NULL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")


def encoded(value: Any) -> str:
    """The value as JSON without null characters: one that came from outside must not stop a whole batch."""
    return _NULL.sub(rb"\1", orjson.dumps(value)).decode()


def without_null(text: str) -> str:
    return text.replace("\x00", "")
