"""Chats and their messages as their owner reads them. What turns write is in `turns`."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.domain.ids import new_id
from shared.store.database import Connection


@dataclass(frozen=True, slots=True)
class ChatRow:
    """A conversation; `binding_id` is empty for one of the web. `position` is the number of its newest message."""

    id: str
    title: str
    agent_id: str
    binding_id: str
    kind: str
    chat_name: str
    link: str
    running: bool
    position: int
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class MessageRow:
    seq: int
    role: str
    content: str
    data: dict[str, Any]
    turn_id: int | None
    sender_name: str
    badge: str
    created_at: datetime


async def listed(connection: Connection, user_id: str, *, before: str, limit: int) -> list[ChatRow]:
    """The chats of a user, the newest first; `before` is the last one of the page before."""
    return [ChatRow(**dict(row)) for row in await connection.fetch(_LIST, user_id, before, limit)]


async def one(connection: Connection, user_id: str, chat_id: str) -> ChatRow | None:
    row = await connection.fetchrow(f"{_SELECT} WHERE c.user_id = $1 AND c.id = $2", user_id, chat_id)
    return ChatRow(**dict(row)) if row else None


async def add(connection: Connection, user_id: str, *, agent_id: str, title: str) -> str:
    """The ID of a new chat of the web."""
    chat_id = new_id("cht")
    await connection.execute(
        "INSERT INTO chats (id, user_id, agent_id, title) VALUES ($1, $2, $3, $4)",
        chat_id,
        user_id,
        agent_id,
        title,
    )
    return chat_id


async def rename(connection: Connection, chat_id: str, title: str) -> None:
    await connection.execute("UPDATE chats SET title = $2 WHERE id = $1", chat_id, title)


async def remove(connection: Connection, chat_id: str) -> None:
    await connection.execute("DELETE FROM chats WHERE id = $1", chat_id)


async def messages(connection: Connection, chat_id: str, *, after: int, limit: int) -> list[MessageRow]:
    """Messages after a number, in order."""
    rows = await connection.fetch(_MESSAGES, chat_id, after, limit)
    return [MessageRow(**dict(row)) for row in rows]


@dataclass(frozen=True, slots=True)
class Progress:
    """One look at a chat. `ended` is the newest turn that has ended, 0 for none."""

    messages: list[MessageRow]
    ended: int


async def progress(
    connection: Connection, user_id: str, chat_id: str, *, after: int, limit: int
) -> Progress | None:
    """What a chat gained after a number, from one snapshot; None when the user may not read it (any more)."""
    row = await connection.fetchrow(_PROGRESS, user_id, chat_id, after, limit)
    if row is None:
        return None
    found = [
        MessageRow(
            m["seq"],
            m["role"],
            m["content"],
            m["data"],
            m["turn_id"],
            m["sender_name"],
            m["badge"],
            datetime.fromisoformat(m["created_at"]),
        )
        for m in row["messages"]
    ]
    return Progress(found, row["ended"])


_SELECT = """
SELECT c.id, c.title, coalesce(c.agent_id, '') AS agent_id, coalesce(c.binding_id, '') AS binding_id,
  c.kind, c.chat_name, c.link, c.turn_id IS NOT NULL AS running, c.next_seq - 1 AS position, c.created_at, c.updated_at
FROM chats c
"""

_LIST = f"""
{_SELECT} WHERE c.user_id = $1 AND ($2 = '' OR (c.updated_at, c.id) < (
  SELECT b.updated_at, b.id FROM chats b WHERE b.user_id = $1 AND b.id = $2))
ORDER BY c.updated_at DESC, c.id DESC LIMIT $3
"""  # noqa: S608 - constants only

_COLUMNS = "seq, role, content, data, turn_id, sender_name, badge, created_at"

_MESSAGES = f"""
SELECT {_COLUMNS} FROM messages WHERE chat_id = $1 AND seq > $2 ORDER BY seq LIMIT $3
"""  # noqa: S608 - constants only

_PROGRESS = f"""
SELECT
  coalesce((SELECT jsonb_agg(to_jsonb(m) ORDER BY m.seq) FROM (
    SELECT {_COLUMNS} FROM messages WHERE chat_id = $2 AND seq > $3 ORDER BY seq LIMIT $4) m), '[]') AS messages,
  coalesce((SELECT max(t.id) FROM turns t WHERE t.chat_id = $2 AND t.state <> 'running'), 0) AS ended
FROM chats c JOIN users u ON u.id = c.user_id AND u.disabled_at IS NULL
WHERE c.user_id = $1 AND c.id = $2
"""  # noqa: S608 - constants only
