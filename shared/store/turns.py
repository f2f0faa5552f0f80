"""Turns and the transcript they write. Every write names (turn, epoch); a newer epoch makes it do nothing.

Order of locks, everywhere: lane, then chat, then turn. A turn closes under the lock of its chat, which is also
what admission takes to append, so that no message can slip between "nothing is unread" and "closed".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.domain.records import Turn
from shared.store.database import Connection
from shared.store.jsonb import encoded, without_null
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
    messages: Mapping[str, Sequence[NewMessage]],
    holder: str,
    *,
    origin: str = "message",
) -> list[Turn]:
    """Claim chats that have no turn, each with the messages (or none) that come to be answered with it.

    A chat that has a turn is left as it is, and no turn comes back for it. The caller holds the lanes of the chats.
    The first model request of a turn begins here: it reads everything up to now.
    """
    flat = [(chat_id, message) for chat_id, added in messages.items() for message in added]
    rows = await connection.fetch(
        _START,
        list(messages),
        [len(added) for added in messages.values()],
        holder,
        origin,
        [chat_id for chat_id, _ in flat],
        *_columns([message for _, message in flat]),
    )
    return [Turn(**dict(row)) for row in rows]


async def add_reply(connection: Connection, turn: Turn, message: NewMessage) -> int | None:
    """Store what a turn produced, as it comes; its number, or None when fenced."""
    seq = await connection.fetchval(_ADD_REPLY, turn.chat_id, turn.id, turn.epoch, *_columns([message]))
    return None if seq is None else int(seq)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that the model server counted."""

    prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Closing:
    """The end of a turn: its answer, `error` when that is a sentence in place of one, and what it used."""

    turn: Turn
    text: str
    data: dict[str, Any]
    error: str = ""
    usage: Usage = Usage()


async def close(connection: Connection, closings: Sequence[Closing]) -> dict[int, Head]:
    """End turns with their answers and free the chats, in one statement; the heads of those that were not fenced.

    A head says whether messages arrived that the turn has not read. The lanes of the chats are taken first.
    """
    rows = await connection.fetch(
        _CLOSE,
        [c.turn.chat_id for c in closings],
        [c.turn.id for c in closings],
        [c.turn.epoch for c in closings],
        ["failed" if c.error else "done" for c in closings],
        [c.error for c in closings],
        [c.usage.prompt_tokens for c in closings],
        [c.usage.completion_tokens for c in closings],
        [without_null(c.text) for c in closings],
        [encoded(c.data) for c in closings],
    )
    heads = [dict(row) for row in rows]
    return {head.pop("closed"): Head(**head) for head in heads}


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
    await connection.execute(_HAND_OVER, [t.id for t in turns], [t.epoch for t in turns])


def _columns(messages: Sequence[NewMessage]) -> tuple[list[Any], ...]:
    return (
        [m.role for m in messages],
        [without_null(m.content) for m in messages],
        [encoded(m.data or {}) for m in messages],
        [m.sender_id for m in messages],
        [m.sender_name for m in messages],
        [m.badge for m in messages],
        [m.inbound_id for m in messages],
    )


_HEAD = """id, user_id, agent_id, binding_id, platform_chat, thread, direct, epoch, turn_id, next_seq,
  last_user_seq, covered_seq"""

_LOCK_CHAT = f"SELECT {_HEAD} FROM chats WHERE id = $1 FOR UPDATE"  # noqa: S608 - constants only


def _new_messages(first_parameter: int, *before: str) -> str:
    """Messages as rows; `before` is one more column, as its value and its name."""
    values = [f"${first_parameter + i}::text[]" for i in range(6)] + [f"${first_parameter + 6}::bigint[]"]
    names = ["role", "content", "data", "sender_id", "sender_name", "badge", "inbound_id", "n"]
    if before:
        values, names = [before[0], *values], [before[1], *names]
    return f"unnest({', '.join(values)}) WITH ORDINALITY AS m({', '.join(names)})"


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
WITH wanted AS (
  SELECT * FROM unnest($1::text[], $2::bigint[]) AS w(id, count)
), c AS (
  UPDATE chats SET turn_id = nextval('turn_ids'), epoch = epoch + 1, next_seq = next_seq + w.count,
    last_user_seq = CASE WHEN w.count > 0 THEN next_seq + w.count - 1 ELSE last_user_seq END,
    waiting_since = coalesce(waiting_since, now()), updated_at = now()
  FROM wanted w WHERE chats.id = w.id AND chats.turn_id IS NULL
  RETURNING chats.id, chats.user_id, chats.agent_id, chats.binding_id, chats.turn_id, chats.epoch,
    chats.next_seq - 1 AS last, chats.next_seq - w.count AS first
), added AS (
  {_INSERT_MESSAGES}
  SELECT c.id, c.first + row_number() OVER (PARTITION BY c.id ORDER BY m.n) - 1, m.role, m.content, m.data::jsonb,
    NULL, m.sender_id, m.sender_name, m.badge, m.inbound_id
  FROM {_new_messages(6, "$5::text[]", "chat_id")} JOIN c ON c.id = m.chat_id
  RETURNING chat_id, sender_id, sender_name
), present AS (
  INSERT INTO turn_senders (turn_id, sender_id, name)
  SELECT DISTINCT ON (c.turn_id, a.sender_id) c.turn_id, a.sender_id, a.sender_name
  FROM added a JOIN c ON c.id = a.chat_id
)
INSERT INTO turns (id, chat_id, user_id, agent_id, binding_id, epoch, holder, origin, requests, read_seq)
SELECT c.turn_id, c.id, c.user_id, coalesce(c.agent_id, ''), coalesce(c.binding_id, ''), c.epoch, $3, $4, 1, c.last
FROM c RETURNING id, chat_id, user_id, agent_id, binding_id, epoch
"""  # noqa: S608 - constants only

_ADD_REPLY = f"""
WITH c AS (
  UPDATE chats SET next_seq = next_seq + 1, updated_at = now()
  WHERE id = $1 AND turn_id = $2 AND epoch = $3 RETURNING next_seq - 1 AS seq
)
{_INSERT_MESSAGES}
SELECT $1, c.seq, m.role, m.content, m.data::jsonb, $2, m.sender_id, m.sender_name, m.badge, m.inbound_id
FROM c, {_new_messages(4)} RETURNING seq
"""  # noqa: S608 - constants only

# Lanes before chats: `held` is counted once, before the first chat is touched. What the chats then hold is read
# anew, because they are the written rows; the turn's read mark is final, because only its holder moves it.
_CLOSE = f"""
WITH wanted AS (
  SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[],
    $8::text[], $9::text[])
    AS w(chat_id, turn_id, epoch, state, error, prompt_tokens, completion_tokens, content, data)
), held AS MATERIALIZED (
  SELECT FROM lanes l JOIN chats s ON s.binding_id = l.binding_id AND s.platform_chat = l.platform_chat
  WHERE s.id = ANY($1::text[]) ORDER BY l.binding_id, l.platform_chat FOR UPDATE OF l
), c AS (
  UPDATE chats SET next_seq = next_seq + 1, turn_id = NULL, updated_at = now(), covered_seq = t.read_seq,
    waiting_since = CASE WHEN last_user_seq > t.read_seq THEN now() END
  FROM wanted w JOIN turns t ON t.id = w.turn_id AND t.epoch = w.epoch
  WHERE (SELECT count(*) FROM held) >= 0
    AND chats.id = w.chat_id AND chats.turn_id = w.turn_id AND chats.epoch = w.epoch
  RETURNING chats.id, chats.user_id, chats.agent_id, chats.binding_id, chats.platform_chat, chats.thread,
    chats.direct, chats.epoch, chats.turn_id, chats.next_seq, chats.last_user_seq, chats.covered_seq,
    w.turn_id AS closed
), answered AS (
  {_INSERT_MESSAGES}
  SELECT c.id, c.next_seq - 1, 'assistant', w.content, w.data::jsonb, w.turn_id, '', '', '', NULL
  FROM c JOIN wanted w ON w.turn_id = c.closed RETURNING turn_id, seq
), ended AS (
  UPDATE turns SET state = w.state, error = w.error, answer_seq = a.seq, ended_at = now(),
    prompt_tokens = w.prompt_tokens, completion_tokens = w.completion_tokens
  FROM answered a JOIN wanted w ON w.turn_id = a.turn_id WHERE turns.id = a.turn_id
)
SELECT {_HEAD}, closed FROM c
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

_HAND_OVER = """
UPDATE turns t SET holder = '' FROM unnest($1::bigint[], $2::bigint[]) AS w(id, epoch)
WHERE t.id = w.id AND t.epoch = w.epoch AND t.state = 'running'
"""

_TAKE_OVER = f"""
WITH c AS (
  UPDATE chats SET epoch = epoch + 1 WHERE id = $1 AND turn_id = $2 AND epoch = $3 RETURNING epoch
)
UPDATE turns SET epoch = c.epoch, holder = $4, takeovers = takeovers + 1
FROM c WHERE turns.id = $2 AND turns.state = 'running'
RETURNING {", ".join(f"turns.{name}" for name in _TURN.split(", "))}
"""  # noqa: S608 - constants only
