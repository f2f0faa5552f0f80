"""Turns and the transcript they write. Every write names (turn, epoch); a newer epoch makes it do nothing.

Order of locks, everywhere: lane, then chat, then turn. A turn closes under the lock of its chat, which is also
what admission takes to append, so that no message can slip between "nothing is unread" and "closed".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from shared.domain.records import Agent, Message, ReplyMode, Turn
from shared.store.database import Connection
from shared.store.presence import ALIVE, KEY_FRONTEND


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message on its way into a chat."""

    role: str
    content: str
    data: dict[str, Any] | None = None
    sender_id: str = ""
    sender_name: str = ""
    badge: str = ""
    inbound_id: int | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """The locked head of a chat."""

    id: str
    user_id: str
    agent_id: str | None
    binding_id: str | None
    platform_chat: str
    thread: str
    direct: bool
    epoch: int
    turn_id: int | None
    next_seq: int
    last_user_seq: int
    covered_seq: int

    @property
    def unread(self) -> bool:
        return self.last_user_seq > self.covered_seq


async def lock_chat(connection: Connection, chat_id: str, *, skip_locked: bool = False) -> Head | None:
    """Take a chat for this transaction. The caller holds its lane already, if it has one."""
    row = await connection.fetchrow(_LOCK_CHAT + (" SKIP LOCKED" if skip_locked else ""), chat_id)
    return Head(**dict(row)) if row else None


async def append(
    connection: Connection, chat_id: str, messages: Sequence[NewMessage], *, answer: bool
) -> int:
    """Add messages to a locked chat; the number of the last one. `answer` says that they wait for a turn."""
    return int(await connection.fetchval(_APPEND, chat_id, len(messages), answer, *_columns(messages)))


async def start(
    connection: Connection,
    head: Head,
    holder: str,
    *,
    origin: str,
    messages: Sequence[NewMessage] = (),
) -> Turn:
    """Claim a locked chat that has no turn, together with the messages that it is to answer.

    The first model request of the turn begins here: it reads everything up to now.
    """
    assert head.turn_id is None
    row = await connection.fetchrow(
        _START, head.id, holder, origin, head.user_id, head.agent_id or "", head.binding_id or "", len(messages),
        *_columns(messages),
    )  # fmt: skip
    return Turn(
        row["turn_id"],
        head.id,
        head.user_id,
        head.agent_id or "",
        head.binding_id or "",
        row["epoch"],
        fresh=True,
    )


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


async def next_request(connection: Connection, turn: Turn, *, first: bool, history: int) -> Request | None:
    """Begin the next model request: everything admitted so far is read by it. None when fenced.

    `first` is the request that began with the claim, where nothing has to be written any more.
    """
    row = await connection.fetchrow(_FIRST_REQUEST if first else _NEXT_REQUEST, turn.id, turn.epoch)
    if row is None:
        return None
    rows = await connection.fetch(_HISTORY, turn.chat_id, row["read_seq"], history)
    messages = [Message(**dict(r)) for r in reversed(rows)]
    agent = None
    if row["agent_id"] is not None:
        agent = Agent(
            row["agent_id"],
            turn.user_id,
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


async def add_reply(connection: Connection, turn: Turn, message: NewMessage) -> int | None:
    """Store what a turn produced, as it comes; its number, or None when fenced."""
    seq = await connection.fetchval(_ADD_REPLY, turn.chat_id, turn.id, turn.epoch, *_columns([message]))
    return None if seq is None else int(seq)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that the model server counted."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


async def close(
    connection: Connection, turn: Turn, message: NewMessage, *, state: str, error: str, usage: Usage
) -> Head | None:
    """End a turn with its answer and free the chat, in one statement; None when fenced.

    The head that comes back says whether messages arrived that this turn has not read.
    """
    row = await connection.fetchrow(
        _CLOSE,
        turn.chat_id,
        turn.id,
        turn.epoch,
        state,
        error,
        usage.prompt_tokens,
        usage.completion_tokens,
        *_columns([message]),
    )
    return Head(**dict(row)) if row else None


async def waiting_chats(
    connection: Connection, *, older_than: float, limit: int
) -> list[tuple[str, str, str]]:
    """(chat, binding, platform chat) of chats that wait for a turn: the sweep."""
    rows = await connection.fetch(_WAITING_CHATS, older_than, limit)
    return [(row["id"], row["binding_id"] or "", row["platform_chat"]) for row in rows]


async def orphans(connection: Connection, limit: int) -> list[Turn]:
    """Running turns whose frontend is gone or silent."""
    rows = await connection.fetch(_ORPHANS, KEY_FRONTEND, limit)
    return [Turn(**dict(row)) for row in rows]


async def held(connection: Connection, holder: str, *, except_ids: Sequence[int], limit: int) -> list[Turn]:
    """Running turns that a frontend holds, besides those that it knows of."""
    rows = await connection.fetch(_HELD, holder, except_ids, limit)
    return [Turn(**dict(row)) for row in rows]


async def take_over(connection: Connection, turn: Turn, holder: str) -> Turn | None:
    """Continue an orphan under the next epoch; None when another was faster."""
    row = await connection.fetchrow(_TAKE_OVER, turn.chat_id, turn.id, turn.epoch, holder)
    return Turn(**dict(row)) if row else None


async def hand_over(connection: Connection, turns: Sequence[Turn]) -> None:
    """Let others take these turns at once, because this process stops."""
    await connection.execute(
        "UPDATE turns SET holder = '' WHERE id = ANY($1::bigint[]) AND state = 'running'",
        [t.id for t in turns],
    )


def _columns(messages: Sequence[NewMessage]) -> tuple[list[Any], ...]:
    return (
        [m.role for m in messages],
        [m.content.replace("\x00", "") for m in messages],
        [orjson.dumps(m.data or {}).replace(b"\\u0000", b"").decode() for m in messages],
        [m.sender_id for m in messages],
        [m.sender_name for m in messages],
        [m.badge for m in messages],
        [m.inbound_id for m in messages],
    )


_HEAD = """id, user_id, agent_id, binding_id, platform_chat, thread, direct, epoch, turn_id, next_seq,
  last_user_seq, covered_seq"""

_LOCK_CHAT = f"SELECT {_HEAD} FROM chats WHERE id = $1 FOR UPDATE"  # noqa: S608 - constants only


def _new_messages(first_parameter: int) -> str:
    n = [f"${first_parameter + i}" for i in range(7)]
    return f"""unnest({n[0]}::text[], {n[1]}::text[], {n[2]}::text[], {n[3]}::text[], {n[4]}::text[], {n[5]}::text[],
  {n[6]}::bigint[]) WITH ORDINALITY AS m(role, content, data, sender_id, sender_name, badge, inbound_id, n)"""


_INSERT_MESSAGES = """INSERT INTO messages (chat_id, seq, role, content, data, turn_id, sender_id, sender_name, badge,
  inbound_id)"""

_APPEND = f"""
WITH c AS (
  UPDATE chats SET next_seq = next_seq + $2, updated_at = now(),
    last_user_seq = CASE WHEN $3 THEN next_seq + $2 - 1 ELSE last_user_seq END,
    waiting_since = CASE WHEN $3 THEN coalesce(waiting_since, now()) ELSE waiting_since END
  WHERE id = $1 RETURNING next_seq - $2 AS first
), added AS (
  {_INSERT_MESSAGES}
  SELECT $1, c.first + m.n - 1, m.role, m.content, m.data::jsonb, NULL, m.sender_id, m.sender_name, m.badge,
    m.inbound_id
  FROM c, {_new_messages(4)} RETURNING seq
)
SELECT max(seq) FROM added
"""  # noqa: S608 - constants only

_START = f"""
WITH c AS (
  UPDATE chats SET turn_id = nextval('turn_ids'), epoch = epoch + 1, next_seq = next_seq + $7,
    last_user_seq = CASE WHEN $7 > 0 THEN next_seq + $7 - 1 ELSE last_user_seq END,
    waiting_since = coalesce(waiting_since, now()), updated_at = now()
  WHERE id = $1 RETURNING turn_id, epoch, next_seq - 1 AS last, next_seq - $7 AS first
), added AS (
  {_INSERT_MESSAGES}
  SELECT $1, c.first + m.n - 1, m.role, m.content, m.data::jsonb, NULL, m.sender_id, m.sender_name, m.badge,
    m.inbound_id
  FROM c, {_new_messages(8)} RETURNING sender_id, sender_name
), present AS (
  INSERT INTO turn_senders (turn_id, sender_id, name)
  SELECT DISTINCT ON (added.sender_id) c.turn_id, added.sender_id, added.sender_name FROM c, added
)
INSERT INTO turns (id, chat_id, user_id, agent_id, binding_id, epoch, holder, origin, requests, read_seq)
SELECT c.turn_id, $1, $4, $5, $6, c.epoch, $2, $3, 1, c.last FROM c RETURNING id AS turn_id, epoch
"""  # noqa: S608 - constants only

# One snapshot gives the newest number and the messages up to it: both are written under the chat's lock.
_BEGUN = """
  UPDATE turns SET requests = turns.requests + 1, read_seq = c.next_seq - 1
  FROM chats c WHERE turns.id = $1 AND turns.epoch = $2 AND turns.state = 'running' AND c.id = turns.chat_id
  RETURNING turns.id, turns.requests, turns.read_seq, turns.user_id, c.agent_id, c.binding_id, c.platform_chat,
    c.thread, c.direct
"""

_FOUND = """
  SELECT t.id, t.requests, t.read_seq, t.user_id, c.agent_id, c.binding_id, c.platform_chat, c.thread, c.direct
  FROM turns t JOIN chats c ON c.id = t.chat_id WHERE t.id = $1 AND t.epoch = $2 AND t.state = 'running'
"""


def _request(source: str) -> str:
    return f"""
WITH t AS ({source})
SELECT t.requests, t.read_seq, coalesce(b.id, '') AS binding_id, t.platform_chat, t.thread, t.direct,
  coalesce(b.kind, '') AS kind, coalesce(b.addon, '') AS addon, coalesce(b.reply_mode, 'off') AS reply_mode,
  (SELECT w.id FROM deliveries w WHERE w.turn_id = t.id AND w.purpose = 'working') AS working_id,
  a.id AS agent_id, a.name, a.model, a.instructions, a.tools, a.addons, a.grants,
  u.disabled_at IS NULL AS user_enabled,
  NOT EXISTS (SELECT FROM model_allowlist m WHERE m.user_id = t.user_id)
    OR EXISTS (SELECT FROM model_allowlist m WHERE m.user_id = t.user_id AND m.model = a.model) AS model_allowed
FROM t JOIN users u ON u.id = t.user_id LEFT JOIN agents a ON a.id = t.agent_id
LEFT JOIN bindings b ON b.id = t.binding_id
"""  # noqa: S608 - constants only


_NEXT_REQUEST, _FIRST_REQUEST = _request(_BEGUN), _request(_FOUND)

_HISTORY = """
SELECT seq, role, content, data, sender_name FROM messages
WHERE chat_id = $1 AND seq <= $2 AND role <> 'note' ORDER BY seq DESC LIMIT $3
"""

_ADD_REPLY = f"""
WITH c AS (
  UPDATE chats SET next_seq = next_seq + 1, updated_at = now()
  WHERE id = $1 AND turn_id = $2 AND epoch = $3 RETURNING next_seq - 1 AS seq
)
{_INSERT_MESSAGES}
SELECT $1, c.seq, m.role, m.content, m.data::jsonb, $2, m.sender_id, m.sender_name, m.badge, m.inbound_id
FROM c, {_new_messages(4)} RETURNING seq
"""  # noqa: S608 - constants only

# The lock on the chat comes first; the turn's read mark is final, because only its holder moves it.
_CLOSE = f"""
WITH c AS (
  UPDATE chats SET next_seq = next_seq + 1, turn_id = NULL, updated_at = now(), covered_seq = t.read_seq,
    waiting_since = CASE WHEN last_user_seq > t.read_seq THEN now() END
  FROM turns t
  WHERE chats.id = $1 AND chats.turn_id = $2 AND chats.epoch = $3 AND t.id = $2 AND t.epoch = $3
  RETURNING chats.id, chats.user_id, chats.agent_id, chats.binding_id, chats.platform_chat, chats.thread,
    chats.direct, chats.epoch, chats.turn_id, chats.next_seq, chats.last_user_seq, chats.covered_seq
), answered AS (
  {_INSERT_MESSAGES}
  SELECT c.id, c.next_seq - 1, m.role, m.content, m.data::jsonb, $2, m.sender_id, m.sender_name, m.badge, m.inbound_id
  FROM c, {_new_messages(8)} RETURNING seq
), ended AS (
  UPDATE turns SET state = $4, error = $5, answer_seq = answered.seq, ended_at = now(),
    prompt_tokens = $6, completion_tokens = $7
  FROM answered WHERE turns.id = $2 AND turns.epoch = $3
)
SELECT {_HEAD} FROM c
"""  # noqa: S608 - constants only

_WAITING_CHATS = """
SELECT id, binding_id, platform_chat FROM chats
WHERE turn_id IS NULL AND last_user_seq > covered_seq
  AND waiting_since < now() - make_interval(secs => $1::double precision)
ORDER BY waiting_since LIMIT $2
"""

_TURN = "id, chat_id, user_id, agent_id, binding_id, epoch"

_ORPHANS = f"""
WITH holders AS (
  SELECT DISTINCT holder FROM turns WHERE state = 'running'
), dead AS (
  SELECT h.holder FROM holders h
  WHERE NOT EXISTS (SELECT FROM frontends f WHERE f.id = h.holder AND {ALIVE})
)
SELECT {_TURN} FROM turns WHERE state = 'running' AND holder IN (SELECT holder FROM dead) ORDER BY id LIMIT $2
"""  # noqa: S608 - constants only

_HELD = f"""
SELECT {_TURN} FROM turns WHERE state = 'running' AND holder = $1 AND id <> ALL($2::bigint[]) ORDER BY id LIMIT $3
"""  # noqa: S608 - constants only

_TAKE_OVER = f"""
WITH c AS (
  UPDATE chats SET epoch = epoch + 1 WHERE id = $1 AND turn_id = $2 AND epoch = $3 RETURNING epoch
)
UPDATE turns SET epoch = c.epoch, holder = $4, takeovers = takeovers + 1
FROM c WHERE turns.id = $2 AND turns.state = 'running'
RETURNING {", ".join(f"turns.{name}" for name in _TURN.split(", "))}
"""  # noqa: S608 - constants only
