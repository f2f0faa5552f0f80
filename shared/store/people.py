"""Users and what they may use, as rows. Sign-ins, keys and links are in `sessions`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from shared.domain.ids import new_id
from shared.store.database import Connection

#: what an administrator switches on for an account; administrators have all of it
FEATURES = ("chats", "agents", "connectors", "addons", "triggers", "mcp")
#: what a new account has
USUAL_FEATURES = ("chats",)

#: advisory lock under which the first administrator is made, so that there is one
_FIRST_ADMIN_LOCK = 7_264_020


class NameTaken(Exception):
    """The name belongs to another row already; names are compared without case."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What an acting user may do right now."""

    id: str
    role: str
    features: frozenset[str]


@dataclass(frozen=True, slots=True)
class User:
    """An account. `has_password` is off until a sign-in link was used."""

    id: str
    name: str
    role: str
    features: tuple[str, ...]
    has_password: bool
    created_at: datetime
    disabled_at: datetime | None

    def may(self, feature: str) -> bool:
        return self.role == "admin" or feature in self.features


async def authority(connection: Connection, user_id: str) -> Standing | None:
    """The standing of an enabled user; None when there is none."""
    row = await connection.fetchrow(_AUTHORITY, user_id)
    return Standing(row["id"], row["role"], frozenset(row["features"])) if row else None


async def listed(connection: Connection) -> list[User]:
    return [user_of(row) for row in await connection.fetch(f"{SELECT_USER} ORDER BY u.created_at, u.id")]


async def one(connection: Connection, user_id: str) -> User | None:
    row = await connection.fetchrow(f"{SELECT_USER} WHERE u.id = $1", user_id)
    return user_of(row) if row else None


async def named(connection: Connection, name: str) -> User | None:
    """A user by name, without regard to case."""
    row = await connection.fetchrow(f"{SELECT_USER} WHERE lower(u.name) = lower($1)", name)
    return user_of(row) if row else None


async def password_hash(connection: Connection, name: str) -> tuple[str, str] | None:
    """(ID, password hash) of an enabled user who has a password."""
    row = await connection.fetchrow(
        "SELECT id, password_hash FROM users "
        "WHERE lower(name) = lower($1) AND disabled_at IS NULL AND password_hash IS NOT NULL",
        name,
    )
    return (row["id"], row["password_hash"]) if row else None


async def add(
    connection: Connection,
    *,
    name: str,
    role: str,
    password_hash: str | None,
    features: Sequence[str] = USUAL_FEATURES,
) -> str:
    """A new account's ID. Raises NameTaken."""
    user_id = new_id("usr")
    try:
        await connection.execute(_ADD, user_id, name, role, password_hash, list(features))
    except asyncpg.UniqueViolationError:
        raise NameTaken(name) from None
    return user_id


async def set_features(connection: Connection, user_id: str, features: Sequence[str]) -> bool:
    """Give an account exactly these features; False when there is no such account."""
    return bool(await connection.fetchval(_SET_FEATURES, user_id, list(features)))


async def set_password(connection: Connection, user_id: str, password_hash: str) -> None:
    await connection.execute("UPDATE users SET password_hash = $2 WHERE id = $1", user_id, password_hash)


async def set_enabled(connection: Connection, user_id: str, enabled: bool) -> bool:
    """Switch an account on or off; off ends its sign-ins."""
    return bool(await connection.fetchval(_SET_ENABLED, user_id, enabled))


async def remove(connection: Connection, user_id: str) -> bool:
    """Delete an account and all that is its own (OFF-07)."""
    return await connection.execute("DELETE FROM users WHERE id = $1", user_id) == "DELETE 1"


async def enabled_admins(connection: Connection) -> list[str]:
    """IDs of the administrators who can sign in, locked: the last one must stay."""
    rows = await connection.fetch(
        "SELECT id FROM users WHERE role = 'admin' AND disabled_at IS NULL ORDER BY id FOR NO KEY UPDATE"
    )
    return [row["id"] for row in rows]


async def lock(connection: Connection, user_id: str) -> bool:
    """Take an account, so that what counts or compares its rows runs one after the other.

    Taken before any other lock. Rows that merely refer to the account may still be written meanwhile.
    """
    query = "SELECT id FROM users WHERE id = $1 AND disabled_at IS NULL FOR NO KEY UPDATE"
    return await connection.fetchval(query, user_id) is not None


async def lock_first_admin(connection: Connection) -> None:
    """Wait until nobody else makes the first administrator; held until the end of the transaction."""
    await connection.execute("SELECT pg_advisory_xact_lock($1)", _FIRST_ADMIN_LOCK)


async def anybody_can_sign_in(connection: Connection) -> bool:
    return bool(
        await connection.fetchval("SELECT EXISTS (SELECT FROM users WHERE password_hash IS NOT NULL)")
    )


async def admin_without_password(connection: Connection) -> str | None:
    """The oldest administrator who has no password yet."""
    query = (
        "SELECT id FROM users WHERE role = 'admin' AND password_hash IS NULL ORDER BY created_at, id LIMIT 1"
    )
    user_id: str | None = await connection.fetchval(query)
    return user_id


def user_of(row: Any) -> User:
    return User(
        row["id"],
        row["name"],
        row["role"],
        tuple(row["features"]),
        row["has_password"],
        row["created_at"],
        row["disabled_at"],
    )


USER_COLUMNS = """u.id, u.name, u.role, u.password_hash IS NOT NULL AS has_password, u.created_at, u.disabled_at,
  ARRAY(SELECT f.feature FROM features f WHERE f.user_id = u.id ORDER BY f.feature) AS features"""

SELECT_USER = f"SELECT {USER_COLUMNS} FROM users u"  # noqa: S608 - constants only

_AUTHORITY = """
SELECT u.id, u.role, ARRAY(SELECT f.feature FROM features f WHERE f.user_id = u.id) AS features
FROM users u WHERE u.id = $1 AND u.disabled_at IS NULL
"""

_ADD = """
WITH made AS (
  INSERT INTO users (id, name, role, password_hash) VALUES ($1, $2, $3, $4) RETURNING id
)
INSERT INTO features (user_id, feature) SELECT made.id, f FROM made, unnest($5::text[]) AS f
"""

_SET_FEATURES = """
WITH gone AS (
  DELETE FROM features WHERE user_id = $1 AND feature <> ALL($2::text[])
), made AS (
  INSERT INTO features (user_id, feature)
  SELECT u.id, f FROM users u, unnest($2::text[]) AS f WHERE u.id = $1 ON CONFLICT DO NOTHING
)
SELECT true FROM users WHERE id = $1
"""

_SET_ENABLED = """
WITH changed AS (
  UPDATE users SET disabled_at = CASE WHEN $2 THEN NULL ELSE coalesce(disabled_at, now()) END WHERE id = $1
  RETURNING id
), ended AS (
  DELETE FROM sessions WHERE user_id IN (SELECT id FROM changed) AND NOT $2
)
SELECT true FROM changed
"""
