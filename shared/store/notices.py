"""A user's inbox of notifications, as rows. They are written where their cause is."""

from dataclasses import dataclass
from datetime import datetime

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


_LIST = """
SELECT id, sort, title, body, link, binding_id, created_at, read_at FROM notifications
WHERE user_id = $1 AND ($2 = 0 OR id < $2) ORDER BY id DESC LIMIT $3
"""

_READ = """
UPDATE notifications SET read_at = coalesce(read_at, now()) WHERE user_id = $1 AND id = $2 RETURNING true
"""
