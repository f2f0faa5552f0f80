"""The sender log of a binding, as rows: who wrote, how often, and why a message was not answered."""

from dataclasses import dataclass
from datetime import datetime

from shared.store.database import Connection


@dataclass(frozen=True, slots=True)
class SenderRow:
    sender_id: str
    name: str
    handle: str
    count: int
    chat: str
    chat_name: str
    reason: str
    language: str
    first_at: datetime
    last_at: datetime


async def listed(connection: Connection, binding_id: str, *, limit: int) -> list[SenderRow]:
    """The senders who wrote last, the newest first."""
    rows = await connection.fetch(
        f"SELECT {_COLUMNS} FROM senders WHERE binding_id = $1 ORDER BY last_at DESC, sender_id LIMIT $2",  # noqa: S608 - constants only
        binding_id,
        limit,
    )
    return [SenderRow(**dict(row)) for row in rows]


async def known(connection: Connection, binding_id: str, sender_id: str) -> bool:
    query = "SELECT EXISTS (SELECT FROM senders WHERE binding_id = $1 AND sender_id = $2)"
    return bool(await connection.fetchval(query, binding_id, sender_id))


_COLUMNS = "sender_id, name, handle, count, chat, chat_name, reason, language, first_at, last_at"
