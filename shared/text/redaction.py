"""Takes secrets out of texts that are about to be logged or shown (case TG-19)."""

import re
from collections.abc import Iterable
from urllib.parse import quote

REDACTED = "[redacted]"
#: a bare Telegram token: the bot's user ID, a colon, about 35 characters
_TELEGRAM_TOKEN = re.compile(r"\b\d{3,20}:[A-Za-z0-9_-]{30,}")
#: the path of a Bot API address, whatever stands where the token belongs
_TELEGRAM_PATH = re.compile(r"/bot(?:\d|%)[^/\s\"'<>]*")
#: shorter secrets, and shorter parts of one, would blank out ordinary words
_SHORTEST_PART = 6


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """`text` without the given secrets (also percent-encoded, also the half after a colon) and token shapes."""
    for secret in sorted(_forms(secrets), key=len, reverse=True):
        text = text.replace(secret, REDACTED)
    return scrub_tokens(text)


def scrub_tokens(text: str) -> str:
    """`text` without anything that has the shape of a Telegram token, known or not."""
    return _TELEGRAM_TOKEN.sub(REDACTED, _TELEGRAM_PATH.sub("/bot" + REDACTED, text))


def _forms(secrets: Iterable[str]) -> set[str]:
    forms: set[str] = set()
    for secret in secrets:
        half = secret.rpartition(":")[2]
        forms |= {secret, quote(secret, safe="")}
        if len(half) >= _SHORTEST_PART:
            forms |= {half, quote(half, safe="")}
    return forms - {""}
