"""What is known of the links to the platforms, for every frontend: written by the leader and the owner, read by all.

A binding is deaf when no poll of it was completed, or nothing at all was heard from its platform, for `limit` seconds:
the wait of a poll and `poll.deaf_seconds` beyond it. While a platform that asked to wait is not asked again, the binding
is waiting, and its silence counts from the end of that. One rule, in `_STATE`, for lists, readiness and metrics.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from shared.store.database import Connection

State = Literal["listening", "waiting", "deaf", "off", "starting"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a leader knows of one binding; times are ages in seconds, None for never. `duplicates` are new ones.

    `held_for`: seconds until a platform that asked to wait is asked again; None when it did not.
    """

    binding_id: str
    polled_ago: float | None
    heard_ago: float | None
    failure: str
    failing_for: float | None
    held_for: float | None
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
class Ages:
    """How one binding is, in seconds since its last completed poll, since it last heard anything, and since the oldest
    message that waits came; None for never, or for nothing that waits.
    """

    id: str
    state: State
    last_poll: float | None
    last_frame: float | None
    oldest_waiting: float | None


@dataclass(frozen=True, slots=True)
class Summary:
    """Over all bindings that should listen: how many are deaf, the worst of all, and the greatest ages in seconds.

    The ages count from the last save at the earliest; a link that tells nothing of what it hears has no frame.
    """

    deaf: int
    worst: tuple[Ages, ...]
    oldest_poll: float
    oldest_frame: float


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
        [each.held_for for each in seen],
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
    """All links together; of the `most` worst the deaf ones first, the longest silent before all, then those whose
    messages wait longest.
    """
    rows = await connection.fetch(_SUMMARY, limit, most)
    if not rows:
        return Summary(0, (), 0.0, 0.0)
    worst = tuple(
        Ages(row["id"], row["state"], row["last_poll"], row["last_frame"], row["oldest_waiting"])
        for row in rows
    )
    first = rows[0]
    return Summary(first["deaf"], worst, first["oldest_poll"], first["oldest_frame"])


def _age(column: str) -> str:
    return f"extract(epoch FROM clock_timestamp() - {column})::double precision"


# Rows that are locked are left out rather than waited for: two leaders could wait for each other otherwise.
_NOTE = """
WITH seen AS (
  SELECT * FROM unnest($2::text[], $3::double precision[], $4::double precision[], $5::text[],
    $6::double precision[], $7::double precision[], $8::bigint[])
    AS s(binding_id, polled_ago, heard_ago, failure, failing_for, held_for, duplicates)
), free AS (
  SELECT s.* FROM seen s JOIN binding_cursor c ON c.binding_id = s.binding_id
  WHERE c.term = $1 FOR NO KEY UPDATE OF c SKIP LOCKED
)
UPDATE binding_cursor c SET
  polled_at = coalesce(clock_timestamp() - make_interval(secs => s.polled_ago), c.polled_at),
  heard_at = greatest(clock_timestamp() - make_interval(secs => s.heard_ago), c.heard_at),
  failure = s.failure, failing_since = clock_timestamp() - make_interval(secs => s.failing_for),
  held_until = clock_timestamp() + make_interval(secs => s.held_for), duplicates = c.duplicates + s.duplicates
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
_POLLED = "greatest(c.polled_at, b.updated_at)"
_HEARD_AT = "CASE WHEN c.heard_at IS NOT NULL THEN greatest(c.heard_at, b.updated_at) END"
_SILENT = "clock_timestamp() - greatest({}, c.held_until) > make_interval(secs => $1::double precision)"
_STATE = f"""
CASE WHEN NOT b.enabled OR NOT has_token THEN 'off'
  WHEN c.held_until > clock_timestamp() THEN 'waiting'
  WHEN {_SILENT.format(_POLLED)} THEN 'deaf'
  WHEN c.heard_at IS NOT NULL AND {_SILENT.format(_HEARD_AT)} THEN 'deaf'
  WHEN c.polled_at >= b.updated_at THEN 'listening' ELSE 'starting' END"""
_FROM = """
FROM bindings b JOIN binding_cursor c ON c.binding_id = b.id CROSS JOIN LATERAL (
  SELECT EXISTS (SELECT FROM binding_secrets s WHERE s.binding_id = b.id AND s.name = 'token') AS has_token) t"""

_OF_USER = f"""
SELECT b.id, {_STATE} AS state, has_token, c.polled_at, c.heard_at, c.failure, c.failing_since,
  least({_POLLED}, {_HEARD_AT}) AS deaf_since,
  c.duplicates,
  extract(epoch FROM clock_timestamp() - least(
    (SELECT min(i.received_at) FROM inbound i WHERE i.binding_id = b.id AND i.state = 'new'),
    (SELECT min(h.waiting_since) FROM chats h WHERE h.binding_id = b.id AND h.last_user_seq > h.covered_seq)
  ))::double precision AS oldest_waiting
{_FROM} WHERE b.user_id = $2
"""  # noqa: S608 - all parts are ours

# What waits is read from the indexes of what waits, once for all bindings.
_SUMMARY = f"""
WITH waiting AS (
  SELECT binding_id, min(since) AS since FROM (
    SELECT binding_id, received_at AS since FROM inbound WHERE state = 'new'
    UNION ALL SELECT binding_id, waiting_since FROM chats WHERE last_user_seq > covered_seq) w GROUP BY binding_id
), links AS (
  SELECT b.id, {_STATE} AS state, {_POLLED} AS polled, {_HEARD_AT} AS heard, c.polled_at, c.heard_at, w.since
  {_FROM} LEFT JOIN waiting w ON w.binding_id = b.id WHERE b.enabled AND has_token
)
SELECT id, state, {_age("polled_at")} AS last_poll, {_age("heard_at")} AS last_frame, {_age("since")} AS oldest_waiting,
  count(*) FILTER (WHERE state = 'deaf') OVER () AS deaf,
  coalesce(max({_age("polled")}) OVER (), 0) AS oldest_poll, coalesce(max({_age("heard")}) OVER (), 0) AS oldest_frame
FROM links
ORDER BY state = 'deaf' DESC, CASE WHEN state = 'deaf' THEN least(polled, heard) END, since, least(polled, heard), id
LIMIT $2
"""  # noqa: S608 - all parts are ours
