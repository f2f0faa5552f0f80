"""What admission reads and writes, inside the transaction that holds the lane."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import structlog

from shared.domain.errors import CallerFenced
from shared.domain.records import Binding, Lane
from shared.sdk.ops import Inbound, Person
from shared.store import cursors
from shared.store.database import Connection

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LaneFacts:
    """The binding of a lane and whether its owner and agent can answer right now."""

    binding: Binding
    agent_name: str
    has_agent: bool
    has_model: bool
    owner_may: bool


@dataclass(frozen=True, slots=True)
class Waiting:
    """A stored message that nobody has decided on, with what the sender did lately.

    One that is not `readable` says only who wrote and where. `paired`: the owner of the binding knows the sender.
    """

    id: int
    message: Inbound
    recent: int
    noticed: bool
    received_at: datetime
    readable: bool = True
    paired: bool = False


def counts(state: str, reason: str) -> bool:
    """Whether a decision counts towards the rate of its sender: all that is answered, by an agent or with a sentence.

    What the rate itself refused does not, so that it ends; nor what nobody was let in for. The same as in `_WAITING`.
    """
    return state in {"admitted", "consumed"} or reason == "too_long"


async def lock_lanes(connection: Connection, lanes: Sequence[Lane]) -> dict[Lane, LaneFacts]:
    """Take lanes, in one order for everybody, and read their bindings; those that are gone are left out."""
    rows = await connection.fetch(_LOCK_LANES, *_columns(lanes))
    return {Lane(row["id"], row["platform_chat"]): _facts(row) for row in rows}


def _facts(row: Any) -> LaneFacts:
    values = dict(row)
    del values["platform_chat"]
    facts = {name: values.pop(name) for name in ("agent_name", "has_agent", "has_model", "owner_may")}
    values["allow"] = tuple(values["allow"])
    return LaneFacts(Binding(**values), **facts)


def _columns(lanes: Sequence[Lane]) -> tuple[list[str], list[str]]:
    return [lane.binding_id for lane in lanes], [lane.platform_chat for lane in lanes]


async def waiting(connection: Connection, lanes: Sequence[Lane], *, limit: int) -> dict[Lane, list[Waiting]]:
    """The undecided messages of locked lanes, in order, at most `limit` of each."""
    found: dict[Lane, list[Waiting]] = {lane: [] for lane in lanes}
    for row in await connection.fetch(_WAITING, *_columns(lanes), limit):
        message = _message(row)
        readable = message is not None
        known = message or Inbound(row["platform_chat"], Person(row["sender_id"]))
        entry = Waiting(
            row["id"], known, row["recent"], row["noticed"], row["received_at"], readable, row["paired"]
        )
        found[Lane(row["binding_id"], row["platform_chat"])].append(entry)
    return found


def _message(row: Any) -> Inbound | None:
    """The message of a row; None for one that this program cannot read, as after a change of its shape."""
    try:
        return msgspec.convert(row["body"], Inbound)
    except msgspec.ValidationError as problem:
        log.warning("message_unreadable", inbound=row["id"], problem=str(problem))
        return None


@dataclass(frozen=True, slots=True)
class Decided:
    """The outcome for one message; `reason` is empty for an admitted one."""

    lane: Lane
    waiting: Waiting
    state: str
    reason: str
    chat_id: str | None = None
    noticed: bool = False


async def write_decisions(connection: Connection, decided: Sequence[Decided]) -> None:
    """Record outcomes, erase the stored texts and bring the sender log up to date."""
    messages = [d.waiting.message for d in decided]
    await connection.execute(
        _WRITE_DECISIONS,
        *_columns([d.lane for d in decided]),
        [d.waiting.id for d in decided],
        [d.state for d in decided],
        [d.reason for d in decided],
        [d.chat_id for d in decided],
        [m.sender.id for m in messages],
        [m.sender.name[:200] for m in messages],
        [m.sender.handle[:200] for m in messages],
        [m.chat_name[:200] for m in messages],
        [d.noticed for d in decided],
    )


async def switch_off(connection: Connection, binding_id: str, *, reason: str, title: str) -> str | None:
    """Switch a binding off and notify its owner, once; the owner's ID when this call did it (OFF-01)."""
    user: str | None = await connection.fetchval(_SWITCH_OFF, binding_id, reason, title)
    return user


async def switch_off_as_leader(
    connection: Connection, binding_id: str, *, term: int, reason: str, title: str
) -> str | None:
    """The same by a leader, in a transaction. Raises CallerFenced when the binding is not this term's any more.

    The binding is taken before its read position, as everybody does; the position is written before the binding, and
    its lock keeps a newer leader from claiming meanwhile.
    """
    if not await connection.fetchval(_TAKE, binding_id):
        return None
    if not await cursors.hold(connection, binding_id, term):
        raise CallerFenced("a newer leader reads this connection")
    return await switch_off(connection, binding_id, reason=reason, title=title)


_TAKE = "SELECT true FROM bindings WHERE id = $1 AND enabled FOR UPDATE"

_LOCK_LANES = """
SELECT l.platform_chat, b.id, b.user_id, b.agent_id, b.kind, b.addon, b.name, b.enabled, b.allow, b.accept_any, b.reply_mode,
  b.conversation, b.window_minutes, b.options, b.account_id, b.account_epoch, b.revision,
  coalesce(a.name, '') AS agent_name, a.id IS NOT NULL AS has_agent, coalesce(a.model, '') <> '' AS has_model,
  u.disabled_at IS NULL AND (u.role = 'admin' OR EXISTS (
    SELECT FROM features f WHERE f.user_id = u.id AND f.feature = 'connectors')) AS owner_may
FROM lanes l JOIN bindings b ON b.id = l.binding_id JOIN users u ON u.id = b.user_id
LEFT JOIN agents a ON a.id = b.agent_id
WHERE (l.binding_id, l.platform_chat) IN (SELECT * FROM unnest($1::text[], $2::text[]))
ORDER BY l.binding_id, l.platform_chat
FOR UPDATE OF l
"""

_WAITING = """
SELECT i.binding_id, i.platform_chat, i.id, i.sender_id, i.body, i.received_at,
  (SELECT count(*) FROM inbound r WHERE r.binding_id = i.binding_id AND r.sender_id = i.sender_id
     AND (r.state IN ('admitted', 'consumed') OR r.reason = 'too_long')
     AND r.decided_at > now() - interval '60 seconds') AS recent,
  coalesce(s.noticed_at > now() - interval '60 seconds', false) AS noticed,
  EXISTS (SELECT FROM pairings p WHERE p.binding_id = i.binding_id AND p.sender_id = i.sender_id
     AND p.expires_at > now()) AS paired
FROM unnest($1::text[], $2::text[]) AS l(binding_id, platform_chat)
CROSS JOIN LATERAL (
  SELECT n.* FROM inbound n
  WHERE n.binding_id = l.binding_id AND n.platform_chat = l.platform_chat AND n.state = 'new'
  ORDER BY n.id LIMIT $3) i
LEFT JOIN senders s ON s.binding_id = i.binding_id AND s.sender_id = i.sender_id
ORDER BY i.id
"""

_WRITE_DECISIONS = """
WITH decided AS (
  SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[],
    $8::text[], $9::text[], $10::text[], $11::boolean[]) WITH ORDINALITY
    AS d(binding_id, platform_chat, id, state, reason, chat_id, sender_id, name, handle, chat_name, noticed, n)
), erased AS (
  UPDATE inbound i SET state = d.state, reason = d.reason, chat_id = d.chat_id, decided_at = now(), body = NULL
  FROM decided d WHERE i.id = d.id
), latest AS (
  SELECT DISTINCT ON (binding_id, sender_id) *, count(*) OVER (PARTITION BY binding_id, sender_id) AS times,
    bool_or(noticed) OVER (PARTITION BY binding_id, sender_id) AS told
  FROM decided ORDER BY binding_id, sender_id, n DESC
)
INSERT INTO senders AS s (binding_id, sender_id, name, handle, count, chat, chat_name, reason, noticed_at)
SELECT binding_id, sender_id, name, handle, times, platform_chat, chat_name,
  CASE WHEN state IN ('refused', 'unaddressed') THEN reason ELSE '' END, CASE WHEN told THEN now() END
FROM latest
ON CONFLICT (binding_id, sender_id) DO UPDATE SET name = excluded.name, handle = excluded.handle,
  count = s.count + excluded.count, chat = excluded.chat, chat_name = excluded.chat_name, reason = excluded.reason,
  noticed_at = coalesce(excluded.noticed_at, s.noticed_at), last_at = now()
"""

_SWITCH_OFF = """
WITH off AS (
  UPDATE bindings SET enabled = false, off_reason = $2, revision = revision + 1, updated_at = now()
  WHERE id = $1 AND enabled RETURNING user_id, name
), told AS (
  INSERT INTO notifications (user_id, sort, title, body, binding_id)
  SELECT user_id, 'binding_off', $3, $2, $1 FROM off
), noted AS (
  INSERT INTO audit (actor, act, object, facts)
  SELECT 'system', 'binding.off', $1, jsonb_build_object('reason', $2::text) FROM off
)
SELECT user_id FROM off
"""
