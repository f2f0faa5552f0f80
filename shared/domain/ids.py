"""Identifiers: a prefix that says what it is, and 120 random bits."""

import secrets

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: str) -> str:
    """A new identifier such as `agt_4k9…`; unguessable and safe in an address."""
    number = secrets.randbits(120)
    return f"{prefix}_" + "".join(_ALPHABET[(number >> shift) & 31] for shift in range(0, 120, 5))


def operation_id(turn: int, request: int, index: int) -> str:
    """What makes a tool call the same one after a takeover: turn, model request, place in the reply."""
    return f"{turn}:{request}:{index}"
