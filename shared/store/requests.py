"""What a model request reads: the agent, where the answer goes, and the transcript."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.domain.records import Agent, Message, ReplyMode, Turn
from shared.store.database import Connection


@dataclass(frozen=True, slots=True)
class Request:
    """What one model request reads. `number` counts the requests of the turn from 1."""

    number: int
    read_seq: int
    agent: Agent | None
    model_allowed: bool
    user_enabled: bool
    place: "Destination"
    messages: list[Message]


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the answer goes. `binding_id` is empty for a chat of the web, or when the binding is gone."""

    binding_id: str
    platform_chat: str
    thread: str
    direct: bool
    kind: str
    addon: str
    reply_mode: ReplyMode
    working_id: int | None


async def first_requests(
    connection: Connection, turns: Sequence[Turn], *, history: int
) -> dict[int, Request]:
    """The requests that began with the claims of these turns, by turn; nothing has to be written for them."""
    return await _requests(connection, _FIRST_REQUESTS, turns, history)


async def next_request(connection: Connection, turn: Turn, *, history: int) -> Request | None:
    """Begin the next model request: everything admitted so far is read by it. None when fenced."""
    return (await _requests(connection, _NEXT_REQUESTS, [turn], history)).get(turn.id)


async def _requests(
    connection: Connection, query: str, turns: Sequence[Turn], history: int
) -> dict[int, Request]:
    rows = await connection.fetch(query, [t.id for t in turns], [t.epoch for t in turns], history)
    return {row["id"]: _request(row, [Message(*entry) for entry in row["history"]]) for row in rows}


def _request(row: Any, messages: list[Message]) -> Request:
    agent = None
    if row["agent_id"] is not None:
        agent = Agent(
            row["agent_id"],
            row["user_id"],
            row["name"],
            row["model"],
            row["instructions"],
            row["tools"],
            tuple(row["addons"]),
            tuple(row["grants"]),
        )
    place = Destination(*(row[name] for name in Destination.__slots__))
    allowed, enabled = row["model_allowed"], row["user_enabled"]
    return Request(row["requests"], row["read_seq"], agent, allowed, enabled, place, messages)


_WANTED = "unnest($1::bigint[], $2::bigint[]) AS w(id, epoch)"

# One snapshot gives the newest number and the messages up to it: both are written under the chat's lock.
_BEGUN = f"""
  UPDATE turns SET requests = turns.requests + 1, read_seq = c.next_seq - 1
  FROM {_WANTED}, chats c
  WHERE turns.id = w.id AND turns.epoch = w.epoch AND turns.state = 'running' AND c.id = turns.chat_id
  RETURNING turns.id, turns.requests, turns.read_seq, turns.user_id, turns.chat_id, c.agent_id, c.binding_id,
    c.platform_chat, c.thread, c.direct
"""  # noqa: S608 - constants only

_FOUND = f"""
  SELECT t.id, t.requests, t.read_seq, t.user_id, t.chat_id, c.agent_id, c.binding_id, c.platform_chat, c.thread,
    c.direct
  FROM {_WANTED} JOIN turns t ON t.id = w.id AND t.epoch = w.epoch AND t.state = 'running'
  JOIN chats c ON c.id = t.chat_id
"""  # noqa: S608 - constants only


def _query(source: str) -> str:
    return f"""
WITH t AS ({source})
SELECT t.id, t.chat_id, t.user_id, t.requests, t.read_seq, coalesce(b.id, '') AS binding_id, t.platform_chat,
  t.thread, t.direct, coalesce(b.kind, '') AS kind, coalesce(b.addon, '') AS addon,
  coalesce(b.reply_mode, 'off') AS reply_mode,
  (SELECT w.id FROM deliveries w WHERE w.turn_id = t.id AND w.purpose = 'working') AS working_id,
  coalesce((SELECT jsonb_agg(jsonb_build_array(h.seq, h.role, h.content, h.data, h.sender_name, h.sender_id) ORDER BY h.seq)
    FROM (SELECT m.* FROM messages m WHERE m.chat_id = t.chat_id AND m.seq <= t.read_seq AND m.role <> 'note'
      ORDER BY m.seq DESC LIMIT $3) h), '[]') AS history,
  a.id AS agent_id, a.name, a.model, a.instructions, a.tools, a.addons, a.grants,
  u.disabled_at IS NULL AS user_enabled,
  NOT EXISTS (SELECT FROM model_allowlist m WHERE m.user_id = t.user_id)
    OR EXISTS (SELECT FROM model_allowlist m WHERE m.user_id = t.user_id AND m.model = a.model) AS model_allowed
FROM t JOIN users u ON u.id = t.user_id LEFT JOIN agents a ON a.id = t.agent_id
LEFT JOIN bindings b ON b.id = t.binding_id
"""  # noqa: S608 - constants only


_NEXT_REQUESTS, _FIRST_REQUESTS = _query(_BEGUN), _query(_FOUND)
