"""Bindings, as rows."""

from dataclasses import dataclass
from datetime import datetime
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
    """A binding that the leader polls; where it reads from is what it claims."""

    binding_id: str
    kind: str
    addon: str
    name: str
    user_id: str
    revision: int


async def pollable(connection: Connection) -> list[Pollable]:
    """All enabled bindings that have a token, in a stable order."""
    rows = await connection.fetch(_POLLABLE + " ORDER BY b.id")
    return [Pollable(**dict(row)) for row in rows]


# -- as their owner sees and changes them ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BindingRow:
    """A binding without its token."""

    id: str
    agent_id: str | None
    kind: str
    addon: str
    name: str
    enabled: bool
    off_reason: str
    allow: list[str]
    accept_any: bool
    reply_mode: str
    conversation: str
    window_minutes: int
    send_files: bool
    notify_chat: str
    reply_language: str
    options: dict[str, str]
    account_id: str
    account_name: str
    account_epoch: int
    revision: int
    created_at: datetime
    has_token: bool


async def listed(connection: Connection, user_id: str) -> list[BindingRow]:
    """The bindings of a user, the oldest first."""
    rows = await connection.fetch(f"{_SELECT} WHERE b.user_id = $1 ORDER BY b.created_at, b.id", user_id)
    return [BindingRow(**dict(row)) for row in rows]


async def one(connection: Connection, user_id: str, binding_id: str) -> BindingRow | None:
    """A binding of a user; None when there is none, or when it is another's."""
    row = await connection.fetchrow(f"{_SELECT} WHERE b.user_id = $1 AND b.id = $2", user_id, binding_id)
    return BindingRow(**dict(row)) if row else None


async def lock(connection: Connection, user_id: str, binding_id: str) -> BindingRow | None:
    """The same, taken for this transaction; the caller has taken its user."""
    query = f"{_SELECT} WHERE b.user_id = $1 AND b.id = $2 FOR UPDATE OF b"
    row = await connection.fetchrow(query, user_id, binding_id)
    return BindingRow(**dict(row)) if row else None


async def count(connection: Connection, user_id: str) -> int:
    return int(await connection.fetchval("SELECT count(*) FROM bindings WHERE user_id = $1", user_id))


async def add(connection: Connection, user_id: str, binding_id: str, values: dict[str, Any]) -> None:
    """A new binding and its read position; `values` by column."""
    values = {"id": binding_id, "user_id": user_id, **values}
    places = ", ".join(f"${n}" for n in range(1, len(values) + 1))
    await connection.execute(
        f"INSERT INTO bindings ({', '.join(values)}) VALUES ({places})",  # noqa: S608 - columns are ours
        *values.values(),
    )
    await connection.execute("INSERT INTO binding_cursor (binding_id) VALUES ($1)", binding_id)


async def change(connection: Connection, binding_id: str, values: dict[str, Any]) -> None:
    """Set columns of a locked binding; its revision grows, so that everybody reads it anew."""
    sets = "".join(f"{column} = ${n}, " for n, column in enumerate(values, start=2))
    await connection.execute(
        f"UPDATE bindings SET {sets} revision = revision + 1, updated_at = now() WHERE id = $1",  # noqa: S608 - columns are ours
        binding_id,
        *values.values(),
    )


async def remove(connection: Connection, user_id: str, binding_id: str) -> bool:
    query = "DELETE FROM bindings WHERE user_id = $1 AND id = $2"
    return await connection.execute(query, user_id, binding_id) == "DELETE 1"


async def set_token(connection: Connection, binding_id: str, sealed: str) -> None:
    await connection.execute(_SEAL_IN, binding_id, sealed)


async def clear_token(connection: Connection, binding_id: str) -> None:
    query = "DELETE FROM binding_secrets WHERE binding_id = $1 AND name = 'token'"
    await connection.execute(query, binding_id)


async def start_over(connection: Connection, binding_id: str) -> None:
    """Another upstream account: its message IDs are other messages, and its read position is at the beginning."""
    await connection.execute(_START_OVER, binding_id)


_SELECT = """
SELECT b.id, b.agent_id, b.kind, b.addon, b.name, b.enabled, b.off_reason, b.allow, b.accept_any, b.reply_mode,
  b.conversation, b.window_minutes, b.send_files, b.notify_chat, b.reply_language, b.options, b.account_id, b.account_name,
  b.account_epoch, b.revision, b.created_at,
  EXISTS (SELECT FROM binding_secrets s WHERE s.binding_id = b.id AND s.name = 'token') AS has_token
FROM bindings b
"""

_SEAL_IN = """
INSERT INTO binding_secrets (binding_id, name, sealed) VALUES ($1, 'token', $2)
ON CONFLICT (binding_id, name) DO UPDATE SET sealed = $2, updated_at = now()
"""

_START_OVER = """
WITH next AS (
  UPDATE bindings SET account_epoch = account_epoch + 1 WHERE id = $1 RETURNING id, account_epoch
)
INSERT INTO binding_cursor (binding_id, account_epoch) SELECT id, account_epoch FROM next
ON CONFLICT (binding_id) DO UPDATE SET account_epoch = excluded.account_epoch, position = '', moved_at = NULL
"""

_POLLABLE = """
SELECT b.id AS binding_id, b.kind, b.addon, b.name, b.user_id, b.revision
FROM bindings b JOIN binding_secrets s ON s.binding_id = b.id AND s.name = 'token' WHERE b.enabled
"""
