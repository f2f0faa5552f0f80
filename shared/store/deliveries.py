"""Planned parts of answers and notices: planned by anybody, executed by the owner alone, in order for a lane."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from shared.domain.records import Delivery, Lane, Part
from shared.store.database import Connection
from shared.store.jsonb import encoded, without_null


async def lock_lanes(connection: Connection, lanes: Iterable[Lane]) -> None:
    """Take lanes for this transaction, always BEFORE the chats and turns of them, and in one order for everybody."""
    wanted = list(lanes)
    await connection.fetch(_LOCK_LANES, [w.binding_id for w in wanted], [w.platform_chat for w in wanted])


async def plan(connection: Connection, planned: Sequence[tuple[Lane, Part]]) -> list[int]:
    """Append parts to the order of their lanes; the IDs of the new deliveries. The caller holds the lanes."""
    if not planned:
        return []
    parts = [part for _, part in planned]
    rows = await connection.fetch(
        _PLAN,
        [lane.binding_id for lane, _ in planned],
        [lane.platform_chat for lane, _ in planned],
        [p.thread for p in parts],
        [p.reply_to for p in parts],
        [p.chat_id for p in parts],
        [p.turn_id for p in parts],
        [p.epoch for p in parts],
        [p.part for p in parts],
        [p.purpose for p in parts],
        [p.action for p in parts],
        [p.target_id for p in parts],
        [encoded(p.body) for p in parts],
    )
    return [row["id"] for row in rows]


async def claim_heads(
    connection: Connection, lanes: Sequence[Lane], owner_term: int, *, unheard: Collection[Lane] = ()
) -> list[Delivery]:
    """Mark the first open part of each lane as `sending` under this owner's term, where its time has come.

    `unheard` are lanes whose last claim got no answer: what it marked was never sent, and is claimed again.
    """
    rows = await connection.fetch(
        _CLAIM_HEADS,
        [lane.binding_id for lane in lanes],
        [lane.platform_chat for lane in lanes],
        owner_term,
        [lane in unheard for lane in lanes],
    )
    return [Delivery(**dict(row)) for row in rows]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a claimed part. `state` planned means: again, not before `wait_seconds` from now."""

    delivery_id: int
    state: str
    platform_id: str = ""
    error: dict[str, Any] | None = None
    wait_seconds: float | None = None
    body: dict[str, Any] | None = None
    action: str | None = None


@dataclass(frozen=True, slots=True)
class WorkingMessage:
    """The message that previews of a turn may edit."""

    lane_binding: str
    platform_chat: str
    thread: str
    platform_id: str
    revision: int


@dataclass(frozen=True, slots=True)
class Alert:
    """What the owner of a binding reads when a part did not arrive.

    `{name}` in the title is the binding's name, `{binding}` in the body its ID.
    """

    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Settled:
    """How many deliveries a statement changed, and the users in whose inboxes it put an alert."""

    count: int
    alerted: Sequence[str]


async def record(connection: Connection, results: Sequence[Result], owner_term: int, alert: Alert) -> Settled:
    """Write outcomes; only rows that this owner's term is sending change.

    The owner of a binding is alerted to an answer or a notice that failed or may not have been seen, in the same
    statement. Working messages do not count, and notifications do not either: one about another would go round.
    """
    return _settled(
        await connection.fetchrow(
            _RECORD,
            alert.title,
            alert.body,
            owner_term,
            [r.delivery_id for r in results],
            [r.state for r in results],
            [without_null(r.platform_id) for r in results],
            [None if r.error is None else encoded(r.error) for r in results],
            [r.wait_seconds for r in results],
            [None if r.body is None else encoded(r.body) for r in results],
            [r.action for r in results],
        )
    )


async def settle_orphans(connection: Connection, owner_term: int, alert: Alert) -> Settled:
    """Decide on parts that an earlier owner was sending: an edit may be repeated, anything else is unknown.

    An owner that resumes under its old term was such an earlier owner itself; nothing of it is on its way now.
    """
    return _settled(await connection.fetchrow(_SETTLE_ORPHANS, alert.title, alert.body, owner_term))


def _settled(row: Any) -> Settled:
    return Settled(row["count"], row["alerted"])


async def waiting_lanes(connection: Connection, limit: int) -> list[Lane]:
    """Lanes whose first open part may go now: the sweep that finds what a lost signal left."""
    rows = await connection.fetch(_WAITING_LANES, limit)
    return [Lane(row["binding_id"], row["platform_chat"]) for row in rows]


async def working_message(connection: Connection, turn_id: int, epoch: int) -> WorkingMessage | None:
    """Where the working message of a running turn is, without an ID before it was sent; None when fenced or over."""
    row = await connection.fetchrow(_WORKING_MESSAGE, turn_id, epoch)
    return WorkingMessage(**dict(row)) if row else None


_LOCK_LANES = """
SELECT FROM lanes l JOIN unnest($1::text[], $2::text[]) AS w(binding_id, platform_chat)
  ON l.binding_id = w.binding_id AND l.platform_chat = w.platform_chat
ORDER BY l.binding_id, l.platform_chat FOR UPDATE OF l
"""

_PLAN = """
WITH wanted AS (
  SELECT p.*, row_number() OVER (PARTITION BY p.binding_id, p.platform_chat ORDER BY p.n) AS place
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::integer[],
    $9::text[], $10::text[], $11::bigint[], $12::text[]) WITH ORDINALITY
    AS p(binding_id, platform_chat, thread, reply_to, chat_id, turn_id, epoch, part, purpose, action, target_id, body, n)
), places AS (
  UPDATE lanes l SET next_delivery = l.next_delivery + c.count
  FROM (SELECT binding_id, platform_chat, count(*) AS count FROM wanted GROUP BY 1, 2) c
  WHERE l.binding_id = c.binding_id AND l.platform_chat = c.platform_chat
  RETURNING l.binding_id, l.platform_chat, l.next_delivery - c.count AS first
)
INSERT INTO deliveries (binding_id, platform_chat, seq, thread, reply_to, chat_id, turn_id, epoch, part,
  purpose, action, target_id, body)
SELECT p.binding_id, p.platform_chat, l.first + p.place - 1, p.thread, p.reply_to, p.chat_id, p.turn_id, p.epoch,
  p.part, p.purpose, p.action, p.target_id, p.body::jsonb
FROM wanted p JOIN places l ON l.binding_id = p.binding_id AND l.platform_chat = p.platform_chat
ORDER BY p.n
RETURNING id
"""

# An edit whose message is not known to exist becomes a send HERE, before it starts: what an owner was doing when it
# died is then read from the row, and only a true edit is repeated.
_CLAIM_HEADS = """
WITH heads AS MATERIALIZED (
  SELECT h.id, b.kind, b.addon, b.revision, coalesce(t.state, '') AS target_state,
    coalesce(t.platform_id, '') AS target_message
  FROM unnest($1::text[], $2::text[], $4::boolean[]) AS l(binding_id, platform_chat, unheard)
  CROSS JOIN LATERAL (
    SELECT d.id, d.state, d.not_before, d.owner_term, d.target_id FROM deliveries d
    WHERE d.binding_id = l.binding_id AND d.platform_chat = l.platform_chat AND d.state IN ('planned', 'sending')
    ORDER BY d.seq LIMIT 1) h
  CROSS JOIN LATERAL (SELECT kind, addon, revision FROM bindings WHERE id = l.binding_id) b
  LEFT JOIN LATERAL (SELECT state, platform_id FROM deliveries WHERE id = h.target_id) t ON true
  WHERE h.state = 'planned' AND (h.not_before IS NULL OR h.not_before <= now())
    OR l.unheard AND h.state = 'sending' AND h.owner_term = $3
)
UPDATE deliveries d SET state = 'sending', owner_term = $3, attempts = d.attempts + 1, started_at = now(),
  action = CASE WHEN d.action <> 'send' AND h.target_state <> 'sent' THEN 'send' ELSE d.action END
FROM heads h
WHERE d.id = h.id AND (d.state = 'planned' OR d.state = 'sending' AND d.owner_term = $3)
RETURNING d.id, d.binding_id, d.platform_chat, d.thread, d.reply_to, d.purpose, d.action, d.body, d.attempts,
  extract(epoch FROM now() - d.planned_at)::double precision AS age_seconds, d.target_id, h.target_message,
  d.turn_id, d.epoch, h.kind, h.addon, h.revision AS binding_revision
"""

# The unique index of unread alerts makes one of many, whoever writes them at the same time.
_ALERTED = """
  INSERT INTO notifications (user_id, sort, title, body, binding_id)
  SELECT b.user_id, 'undelivered', replace($1, '{name}', b.name), replace($2, '{binding}', b.id), b.id
  FROM bindings b WHERE b.id IN (
    SELECT c.binding_id FROM changed c
    WHERE c.state IN ('failed', 'unknown') AND c.purpose NOT IN ('working', 'notification'))
  ORDER BY b.id
  ON CONFLICT (binding_id) WHERE sort = 'undelivered' AND read_at IS NULL DO NOTHING
  RETURNING user_id
"""

_RECORD = f"""
WITH outcomes AS (
  SELECT * FROM unnest($4::bigint[], $5::text[], $6::text[], $7::text[], $8::double precision[], $9::text[],
    $10::text[]) AS o(id, state, platform_id, error, wait_seconds, body, action)
), changed AS (
  UPDATE deliveries d SET state = o.state, error = o.error::jsonb,
    platform_id = CASE WHEN o.platform_id = '' THEN d.platform_id ELSE o.platform_id END,
    body = coalesce(o.body::jsonb, d.body),
    action = coalesce(o.action, d.action),
    not_before = now() + make_interval(secs => o.wait_seconds),
    finished_at = CASE WHEN o.state = 'planned' THEN NULL ELSE now() END
  FROM outcomes o
  WHERE d.id = o.id AND d.state = 'sending' AND d.owner_term = $3
  RETURNING d.binding_id, d.purpose, d.state
), alerted AS ({_ALERTED})
SELECT (SELECT count(*) FROM changed) AS count, ARRAY(SELECT user_id FROM alerted) AS alerted
"""  # noqa: S608 - constants only

_SETTLE_ORPHANS = f"""
WITH changed AS (
  UPDATE deliveries SET
    state = CASE WHEN action = 'edit' THEN 'planned' ELSE 'unknown' END,
    error = CASE WHEN action = 'edit' THEN NULL
      ELSE jsonb_build_object('code', 'outcome_unknown', 'message', 'the owner ended while this was being sent') END,
    finished_at = CASE WHEN action = 'edit' THEN NULL ELSE now() END
  WHERE state = 'sending' AND owner_term <= $3
  RETURNING binding_id, purpose, state
), alerted AS ({_ALERTED})
SELECT (SELECT count(*) FROM changed) AS count, ARRAY(SELECT user_id FROM alerted) AS alerted
"""  # noqa: S608 - constants only

_WAITING_LANES = """
SELECT h.binding_id, h.platform_chat FROM (
  SELECT DISTINCT ON (binding_id, platform_chat) binding_id, platform_chat, state, not_before
  FROM deliveries WHERE state IN ('planned', 'sending') ORDER BY binding_id, platform_chat, seq) h
WHERE h.state = 'planned' AND (h.not_before IS NULL OR h.not_before <= now())
LIMIT $1
"""

_WORKING_MESSAGE = """
SELECT d.binding_id AS lane_binding, d.platform_chat, d.thread, d.platform_id, b.revision
FROM turns t JOIN deliveries d ON d.turn_id = t.id AND d.purpose = 'working' JOIN bindings b ON b.id = d.binding_id
WHERE t.id = $1 AND t.epoch = $2 AND t.state = 'running'
"""
