"""How people prove who they are: sign-ins, API keys and one-time links. Only hashes of them are stored."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime

from shared.domain.ids import new_id
from shared.store.database import Connection
from shared.store.people import USER_COLUMNS, User, user_of

KEY_PREFIX = "tl_"
#: life of a one-time link
LINK_HOURS = 24


def new_token(prefix: str = "") -> str:
    """256 random bits, safe in an address and in a header."""
    return prefix + secrets.token_urlsafe(32)


def hash_of(token: str) -> bytes:
    """What is stored of a token. A random token needs no slow hash, and is found by its hash."""
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who calls. `csrf` is empty for an API key, which no browser sends by itself."""

    user: User
    csrf: str = ""


async def begin(connection: Connection, user_id: str, *, hours: float) -> tuple[str, str]:
    """(token, CSRF token) of a new sign-in; sign-ins that ended are forgotten on the way."""
    token, csrf = new_token(), new_token()
    await connection.execute(_BEGIN, hash_of(token), user_id, csrf, hours)
    return token, csrf


async def by_session(connection: Connection, token: str) -> SignedIn | None:
    row = await connection.fetchrow(_BY_SESSION, hash_of(token))
    return SignedIn(user_of(row), row["csrf"]) if row else None


async def end(connection: Connection, token: str) -> None:
    await connection.execute("DELETE FROM sessions WHERE token_hash = $1", hash_of(token))


# -- API keys -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as its owner sees it later: never the key itself."""

    id: str
    name: str
    created_at: datetime
    used_at: datetime | None


async def by_key(connection: Connection, key: str) -> SignedIn | None:
    """Who an API key belongs to; notes the use, at most once a minute."""
    row = await connection.fetchrow(_BY_KEY, hash_of(key))
    return SignedIn(user_of(row)) if row else None


async def keys_of(connection: Connection, user_id: str) -> list[ApiKey]:
    rows = await connection.fetch(
        "SELECT id, name, created_at, used_at FROM api_keys WHERE user_id = $1 ORDER BY created_at, id",
        user_id,
    )
    return [ApiKey(**dict(row)) for row in rows]


async def add_key(connection: Connection, user_id: str, name: str) -> tuple[ApiKey, str]:
    """A new key and its clear text, which is never to be had again."""
    key = new_token(KEY_PREFIX)
    row = await connection.fetchrow(
        "INSERT INTO api_keys (id, user_id, name, key_hash) VALUES ($1, $2, $3, $4) "
        "RETURNING id, name, created_at, used_at",
        new_id("key"),
        user_id,
        name,
        hash_of(key),
    )
    return ApiKey(**dict(row)), key


async def remove_key(connection: Connection, user_id: str, key_id: str) -> bool:
    query = "DELETE FROM api_keys WHERE id = $2 AND user_id = $1"
    return await connection.execute(query, user_id, key_id) == "DELETE 1"


async def remove_keys_named(connection: Connection, user_id: str, name: str) -> None:
    await connection.execute("DELETE FROM api_keys WHERE user_id = $1 AND name = $2", user_id, name)


# -- one-time links -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Link:
    """A link that sets a password: of `user_id`, or of an administrator who is yet to be made."""

    user_id: str | None
    user_name: str


async def add_link(connection: Connection, user_id: str | None) -> str:
    """The token of a new link; those that ran out are forgotten on the way."""
    token = new_token()
    await connection.execute(_ADD_LINK, hash_of(token), user_id, LINK_HOURS)
    return token


async def read_link(connection: Connection, token: str) -> Link | None:
    """What a link is for, without using it."""
    row = await connection.fetchrow(_READ_LINK, hash_of(token))
    return Link(row["user_id"], row["user_name"]) if row else None


async def use_link(connection: Connection, token: str) -> Link | None:
    """Use a link up; of several that try, one gets it."""
    row = await connection.fetchrow(_USE_LINK, hash_of(token))
    return Link(row["user_id"], row["user_name"]) if row else None


_BEGIN = """
WITH ended AS (
  DELETE FROM sessions WHERE expires_at < now()
)
INSERT INTO sessions (token_hash, user_id, csrf, expires_at)
VALUES ($1, $2, $3, now() + make_interval(secs => $4::double precision * 3600))
"""

_BY_SESSION = f"""
SELECT {USER_COLUMNS}, s.csrf FROM sessions s JOIN users u ON u.id = s.user_id
WHERE s.token_hash = $1 AND s.expires_at > now() AND u.disabled_at IS NULL
"""  # noqa: S608 - constants only

_BY_KEY = f"""
WITH noted AS (
  UPDATE api_keys SET used_at = now()
  WHERE key_hash = $1 AND (used_at IS NULL OR used_at < now() - interval '1 minute')
)
SELECT {USER_COLUMNS} FROM api_keys k JOIN users u ON u.id = k.user_id
WHERE k.key_hash = $1 AND u.disabled_at IS NULL
"""  # noqa: S608 - constants only

_ADD_LINK = """
WITH ended AS (
  DELETE FROM sign_in_links WHERE expires_at < now()
)
INSERT INTO sign_in_links (token_hash, user_id, expires_at) VALUES ($1, $2, now() + make_interval(hours => $3))
"""

_READ_LINK = """
SELECT l.user_id, coalesce(u.name, '') AS user_name FROM sign_in_links l LEFT JOIN users u ON u.id = l.user_id
WHERE l.token_hash = $1 AND l.expires_at > now()
"""

_USE_LINK = """
WITH used AS (
  DELETE FROM sign_in_links WHERE token_hash = $1 AND expires_at > now() RETURNING user_id
)
SELECT used.user_id, coalesce(u.name, '') AS user_name FROM used LEFT JOIN users u ON u.id = used.user_id
"""
