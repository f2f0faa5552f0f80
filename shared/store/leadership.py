"""Who may lead and who leads, in one look: what the frontends spread the shards by."""

from dataclasses import dataclass

import asyncpg

from shared.store.database import Connection
from shared.store.leases import KEY_CHATS_CONNECTORS
from shared.store.presence import KEY_FRONTEND


@dataclass(frozen=True, slots=True)
class Standing:
    """`led`: shards with a leader, and who it is; `last`: shards without one, and who led them last.

    A shard is led while its lock is held and its lease is younger than the time of a takeover. A frontend is a
    candidate while it lives and has not said that it leads nothing now.
    """

    candidates: frozenset[str]
    led: dict[int, str]
    last: dict[int, str]

    def beyond(self, shards: int) -> tuple[int, ...]:
        """The shards that somebody leads who counts more than `shards` of them, in order."""
        return tuple(sorted(shard for shard in self.led if shard >= shards))


async def standing(connection: Connection | asyncpg.Connection, *, takeover_seconds: float) -> Standing:
    rows = await connection.fetch(_LOOK, KEY_FRONTEND, KEY_CHATS_CONNECTORS, takeover_seconds)
    return Standing(
        frozenset(row["name"] for row in rows if row["shard"] is None),
        {row["shard"]: row["name"] for row in rows if row["shard"] is not None and row["holds"]},
        {row["shard"]: row["name"] for row in rows if row["shard"] is not None and not row["holds"]},
    )


async def stand(connection: Connection | asyncpg.Connection, frontend: str, *, candidate: bool) -> None:
    """Say whether this frontend leads when asked to; nothing is written when that was known."""
    await connection.execute(
        "UPDATE frontends SET candidate = $2 WHERE id = $1 AND candidate <> $2", frontend, candidate
    )


_LOOK = """
WITH held AS MATERIALIZED (
  SELECT k.classid, k.objid FROM pg_locks k WHERE k.locktype = 'advisory' AND k.granted
  AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
SELECT f.id AS name, NULL::integer AS shard, false AS holds FROM frontends f
WHERE f.candidate AND f.lease_until > now()
AND EXISTS (SELECT FROM held WHERE classid = $1::integer::oid AND objid = f.lock_key::oid)
UNION ALL
SELECT l.holder, l.shard, NOT l.released
  AND l.renewed_at >= clock_timestamp() - make_interval(secs => $3::double precision)
  AND EXISTS (SELECT FROM held WHERE classid = $2::integer::oid AND objid = l.shard::oid)
FROM leases l WHERE l.name = 'leader'
"""
