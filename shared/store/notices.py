"""A user's inbox of notifications, as rows. They are written where their cause is."""

from dataclasses import dataclass
from datetime import datetime

from shared.domain.records import Lane
from shared.store.database import Connection


@dataclass(frozen=True, slots=True)
class Notification:
    id: int
    sort: str
    title: str
    body: str
    link: str
    binding_id: str
    created_at: datetime
    read_at: datetime | None


async def listed(connection: Connection, user_id: str, *, before: int, limit: int) -> list[Notification]:
    """The newest first; `before` is the ID of the last one of the page before, 0 for the first page."""
    rows = await connection.fetch(_LIST, user_id, before, limit)
    return [Notification(**dict(row)) for row in rows]


async def unread(connection: Connection, user_id: str) -> int:
    query = "SELECT count(*) FROM notifications WHERE user_id = $1 AND read_at IS NULL"
    return int(await connection.fetchval(query, user_id))


async def mark_read(connection: Connection, user_id: str, notification_id: int) -> bool:
    return bool(await connection.fetchval(_READ, user_id, notification_id))


@dataclass(frozen=True, slots=True)
class Forward:
    """A notification on its way to the chat that a binding of its user names for them."""

    lane: Lane
    title: str
    body: str


async def to_forward(connection: Connection, *, limit: int) -> list[Forward]:
    """Take notifications that nobody has forwarded yet, with the places they go to; the caller plans them.

    They count as forwarded with this transaction. A binding that is off cannot send, and a notification about a
    binding does not go out through it.
    """
    rows = await connection.fetch(_TO_FORWARD, limit)
    return [Forward(Lane(r["id"], r["notify_chat"]), r["title"], r["body"]) for r in rows]


_TO_FORWARD = """
WITH taken AS (
  SELECT id, user_id, title, body, binding_id FROM notifications WHERE forwarded_at IS NULL
  ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
), marked AS (
  UPDATE notifications n SET forwarded_at = now() FROM taken t WHERE n.id = t.id
), places AS (
  SELECT t.id AS notification, t.title, t.body, b.id, b.notify_chat
  FROM taken t JOIN bindings b ON b.user_id = t.user_id AND b.enabled AND b.notify_chat <> '' AND b.id <> t.binding_id
), made AS (
  INSERT INTO lanes (binding_id, platform_chat) SELECT DISTINCT id, notify_chat FROM places ON CONFLICT DO NOTHING
)
SELECT id, notify_chat, title, body FROM places ORDER BY notification, id
"""

_LIST = """
SELECT id, sort, title, body, link, binding_id, created_at, read_at FROM notifications
WHERE user_id = $1 AND ($2 = 0 OR id < $2) ORDER BY id DESC LIMIT $3
"""

_READ = """
UPDATE notifications SET read_at = coalesce(read_at, now()) WHERE user_id = $1 AND id = $2 RETURNING true
"""
