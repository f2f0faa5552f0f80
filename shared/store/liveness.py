"""What is known of the links to the platforms, for every frontend: written by the leader and the owner, read by all.

A binding is deaf when no poll of it was completed, or nothing at all was heard from its platform, for `limit` seconds:
the wait of a poll and `poll.deaf_seconds` beyond it. One rule, in `_STATE`, for lists, readiness and metrics.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from shared.store.database import Connection

State = Literal["listening", "deaf", "off", "starting"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a leader knows of one binding; times are ages in seconds, None for never. `duplicates` are new ones."""

    binding_id: str
    polled_ago: float | None
    heard_ago: float | None
    failure: str
    failing_for: float | None
    duplicates: int


@dataclass(frozen=True, slots=True)
class Liveness:
    """One binding as it is stored; `oldest_waiting` is an age in seconds, None when nothing waits."""

    id: str
    state: State
    has_token: bool
    polled_at: datetime | None
    heard_at: datetime | None
    failure: str
    failing_since: datetime | None
    deaf_since: datetime | None
    duplicates: int
    oldest_waiting: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """Over all bindings that should listen: how many are deaf, the worst of them, and the age of the oldest poll."""

    deaf: int
    worst: tuple[str, ...]
    oldest_poll: float


async def note(connection: Connection, term: int, seen: Sequence[Seen]) -> list[str]:
    """Store what a leader knows; the bindings for which it was stored.

    Left out are those that another term has claimed, and those that somebody is writing just now.
    """
    rows = await connection.fetch(
        _NOTE,
        term,
        [each.binding_id for each in seen],
        [each.polled_ago for each in seen],
        [each.heard_ago for each in seen],
        [each.failure for each in seen],
        [each.failing_for for each in seen],
        [each.duplicates for each in seen],
    )
    return [row["binding_id"] for row in rows]


async def heard(connection: Connection, addon: str, ages: Mapping[str, float]) -> list[str]:
    """Store how many seconds ago an add-on heard anything on the links of its bindings; those that were stored.

    The time only grows, so it does not matter which owner says it.
    """
    rows = await connection.fetch(_HEARD, addon, list(ages), list(ages.values()))
    return [row["binding_id"] for row in rows]


async def of_user(connection: Connection, user_id: str, limit: float) -> dict[str, Liveness]:
    """The links of a user's bindings."""
    rows = await connection.fetch(_OF_USER, limit, user_id)
    return {row["id"]: Liveness(**dict(row)) for row in rows}


async def summary(connection: Connection, limit: float, *, most: int = 10) -> Summary:
    """All links together; at most `most` deaf ones by ID, the longest silent first."""
    row = await connection.fetchrow(_SUMMARY, limit, most)
    return Summary(row["deaf"], tuple(row["worst"] or ()), float(row["oldest_poll"] or 0.0))


# Rows that are locked are left out rather than waited for: two leaders could wait for each other otherwise.
_NOTE = """
WITH seen AS (
  SELECT * FROM unnest($2::text[], $3::double precision[], $4::double precision[], $5::text[],
    $6::double precision[], $7::bigint[])
    AS s(binding_id, polled_ago, heard_ago, failure, failing_for, duplicates)
), free AS (
  SELECT s.* FROM seen s JOIN binding_cursor c ON c.binding_id = s.binding_id
  WHERE c.term = $1 FOR NO KEY UPDATE OF c SKIP LOCKED
)
UPDATE binding_cursor c SET
  polled_at = coalesce(clock_timestamp() - make_interval(secs => s.polled_ago), c.polled_at),
  heard_at = greatest(clock_timestamp() - make_interval(secs => s.heard_ago), c.heard_at),
  failure = s.failure, failing_since = clock_timestamp() - make_interval(secs => s.failing_for),
  duplicates = c.duplicates + s.duplicates
FROM free s WHERE c.binding_id = s.binding_id AND c.term = $1
RETURNING c.binding_id
"""

_HEARD = """
WITH heard AS (
  SELECT * FROM unnest($2::text[], $3::double precision[]) AS h(binding_id, ago)
), free AS (
  SELECT h.* FROM heard h JOIN bindings b ON b.id = h.binding_id AND b.addon IN ('', $1)
  JOIN binding_cursor c ON c.binding_id = b.id FOR NO KEY UPDATE OF c SKIP LOCKED
)
UPDATE binding_cursor c SET heard_at = greatest(clock_timestamp() - make_interval(secs => h.ago), c.heard_at)
FROM free h WHERE c.binding_id = h.binding_id
RETURNING c.binding_id
"""

# A save starts a binding anew: its silence counts from there. What was never heard of may be a link that tells nothing.
_POLL_SILENCE = "clock_timestamp() - greatest(c.polled_at, b.updated_at)"
_STATE = f"""
CASE WHEN NOT b.enabled OR NOT has_token THEN 'off'
  WHEN {_POLL_SILENCE} > make_interval(secs => $1::double precision) THEN 'deaf'
  WHEN c.heard_at IS NOT NULL
    AND clock_timestamp() - greatest(c.heard_at, b.updated_at) > make_interval(secs => $1::double precision) THEN 'deaf'
  WHEN c.polled_at >= b.updated_at THEN 'listening' ELSE 'starting' END"""
_FROM = """
FROM bindings b JOIN binding_cursor c ON c.binding_id = b.id CROSS JOIN LATERAL (
  SELECT EXISTS (SELECT FROM binding_secrets s WHERE s.binding_id = b.id AND s.name = 'token') AS has_token) t"""

_OF_USER = f"""
SELECT b.id, {_STATE} AS state, has_token, c.polled_at, c.heard_at, c.failure, c.failing_since,
  least(greatest(c.polled_at, b.updated_at), CASE WHEN c.heard_at IS NOT NULL THEN greatest(c.heard_at, b.updated_at) END)
    AS deaf_since,
  c.duplicates,
  extract(epoch FROM clock_timestamp() - least(
    (SELECT min(i.received_at) FROM inbound i WHERE i.binding_id = b.id AND i.state = 'new'),
    (SELECT min(h.waiting_since) FROM chats h WHERE h.binding_id = b.id AND h.last_user_seq > h.covered_seq)
  ))::double precision AS oldest_waiting
{_FROM} WHERE b.user_id = $2
"""  # noqa: S608 - all parts are ours

_SUMMARY = f"""
SELECT count(*) FILTER (WHERE state = 'deaf') AS deaf,
  (array_agg(id ORDER BY silence DESC, id) FILTER (WHERE state = 'deaf'))[1:$2] AS worst,
  max(extract(epoch FROM silence))::double precision AS oldest_poll
FROM (SELECT b.id, {_STATE} AS state, {_POLL_SILENCE} AS silence {_FROM} WHERE b.enabled AND has_token) links
"""  # noqa: S608 - all parts are ours
