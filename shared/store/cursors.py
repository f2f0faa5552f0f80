"""The read position of a binding, and which leader may move it.

A leader claims a position before it reads from it: from then on the row carries its term, and whoever claimed it
before writes nothing any more, whether or not the position is still the one that one polled from.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.store.database import Connection


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the next poll of a binding reads from."""

    binding_id: str
    account_epoch: int
    position: str


@dataclass(frozen=True, slots=True)
class Claims:
    """The claimed positions by binding, and the bindings that a newer term holds; those that are gone are in neither."""

    cursors: dict[str, Cursor]
    fenced: tuple[str, ...]


async def claim(connection: Connection, binding_ids: Sequence[str], term: int) -> Claims:
    """Take the positions of many bindings for a term, in one statement; one that has this term already stays as it is.

    A write of the holder before that is under way is waited for, so what is read is what it left.
    """
    rows = await connection.fetch(_CLAIM, binding_ids, term)
    found = [Cursor(**dict(row)) for row in rows if row["position"] is not None]
    fenced = tuple(row["binding_id"] for row in rows if row["position"] is None)
    return Claims({cursor.binding_id: cursor for cursor in found}, fenced)


async def hold(connection: Connection, binding_id: str, term: int) -> bool:
    """Keep every other leader from claiming until this transaction ends; False when the term is not the claimed one."""
    return bool(await connection.fetchval(_HOLD, binding_id, term))


# The rows are locked first, in one order for everybody, and the time is taken after that: what an older term stored
# is older than `claimed_at`.
_CLAIM = """
WITH held AS (
  SELECT binding_id, term FROM binding_cursor WHERE binding_id = ANY($1::text[]) ORDER BY binding_id FOR UPDATE
), claimed AS (
  UPDATE binding_cursor c SET term = $2,
    claimed_at = CASE WHEN c.term = $2 AND c.claimed_at IS NOT NULL THEN c.claimed_at ELSE clock_timestamp() END
  FROM held h WHERE c.binding_id = h.binding_id AND c.term <= $2
  RETURNING c.binding_id, c.account_epoch, c.position
)
SELECT * FROM claimed UNION ALL SELECT binding_id, NULL, NULL FROM held WHERE term > $2
"""

_HOLD = "UPDATE binding_cursor SET term = $2 WHERE binding_id = $1 AND term = $2 RETURNING true"
