"""Bindings, as rows."""

from dataclasses import dataclass
from typing import Any

from shared.store.database import Connection


def token_record(binding_id: str) -> str:
    """What a sealed bot token is tied to (TOK-02)."""
    return f"binding:{binding_id}:token"


@dataclass(frozen=True, slots=True)
class AccessRow:
    """What the owner needs to call the platform of a binding; `sealed` is empty without a token."""

    kind: str
    addon: str
    revision: int
    options: dict[str, Any]
    sealed: str


async def access(connection: Connection, binding_id: str) -> AccessRow | None:
    row = await connection.fetchrow(
        "SELECT b.kind, b.addon, b.revision, b.options, coalesce(s.sealed, '') AS sealed FROM bindings b "
        "LEFT JOIN binding_secrets s ON s.binding_id = b.id AND s.name = 'token' WHERE b.id = $1",
        binding_id,
    )
    return AccessRow(**dict(row)) if row else None


async def owner_of(connection: Connection, binding_id: str) -> str | None:
    """The user that a binding belongs to; None when there is no such binding."""
    user: str | None = await connection.fetchval("SELECT user_id FROM bindings WHERE id = $1", binding_id)
    return user


@dataclass(frozen=True, slots=True)
class Pollable:
    """A binding that the leader polls, and where it reads from."""

    binding_id: str
    kind: str
    addon: str
    name: str
    user_id: str
    revision: int
    account_epoch: int
    position: str


async def pollable(connection: Connection) -> list[Pollable]:
    """All enabled bindings that have a token, in a stable order."""
    rows = await connection.fetch(_POLLABLE + " ORDER BY b.id")
    return [Pollable(**dict(row)) for row in rows]


async def pollable_one(connection: Connection, binding_id: str) -> Pollable | None:
    """One binding as the leader polls it; None when it is off, gone or has no token."""
    row = await connection.fetchrow(_POLLABLE + " AND b.id = $1", binding_id)
    return Pollable(**dict(row)) if row else None


_POLLABLE = """
SELECT b.id AS binding_id, b.kind, b.addon, b.name, b.user_id, b.revision, b.account_epoch,
  coalesce(c.position, '') AS position
FROM bindings b JOIN binding_secrets s ON s.binding_id = b.id AND s.name = 'token'
LEFT JOIN binding_cursor c ON c.binding_id = b.id WHERE b.enabled
"""
