"""Targets of links, as the server checks and writes them."""

import re
from urllib.parse import parse_qs, urlsplit

_WEB = re.compile(r"(?P<scheme>https?)://(?P<host>[^/?#\s]+)(?P<rest>[^\s]*)\Z", re.IGNORECASE)
_HOST = re.compile(r"(?:[^@\s]*@)?[^\s.:@]+(?:\.[^\s.:@]+)+\.?(?::\d{1,5})?\Z")


def checked_link(target: str) -> str | None:
    """The address as it is stored: with a scheme and a path; None when it is no address of a host with a dot."""
    target = target.strip()
    scheme = target.partition("://")[0].lower()
    if "://" in target and scheme in {"tg", "ton"}:
        return f"{scheme}{target[len(scheme) :]}"
    match = _WEB.match(target if "://" in target else f"http://{target}")
    if match is None or not _HOST.match(match["host"]):
        return None
    rest = match["rest"] if match["rest"].startswith("/") else f"/{match['rest']}"
    return f"{match['scheme'].lower()}://{match['host'].lower()}{rest}"


def custom_emoji_id(target: str) -> str | None:
    """The number in `tg://emoji?id=N`, or None."""
    try:
        parts = urlsplit(target.strip())
    except ValueError:
        return None
    values = parse_qs(parts.query).get("id", [""])
    is_emoji = parts.scheme == "tg" and parts.netloc == "emoji"
    return values[0] if is_emoji and values[0].isascii() and values[0].isdigit() else None
