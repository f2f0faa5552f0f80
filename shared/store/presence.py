"""Which frontends are alive.

A living frontend holds a session advisory lock, which falls the moment its process dies, and renews `lease_until`,
which catches a process that is stopped. Turns of a frontend that has lost either may be taken over.
"""

import contextlib
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from shared.store.database import CONNECTION_ERRORS, Connection, Database, StoreUnavailable

#: class of the advisory locks of frontends; the object is `frontends.lock_key`
KEY_FRONTEND = 7_264_012


@dataclass(frozen=True, slots=True)
class FrontendRow:
    id: str
    version: str
    url: str
    started_at: datetime
    seen_at: datetime
    alive: bool


class Presence:
    """The row and the lock of this frontend; `beat` renews both and restores a lost session."""

    def __init__(self, database: Database, *, frontend: str, version: str, lease_seconds: float) -> None:
        self._database = database
        self.url = ""
        self._frontend = frontend
        self._version = version
        self._lease = lease_seconds
        self._connection: asyncpg.Connection | None = None
        self._key = 0
        self._locked = False

    async def enter(self) -> None:
        """Register. Raises StoreUnavailable when another living frontend has this ID."""
        connection = await self._database.own_connection("presence")
        try:
            self._key = await connection.fetchval(
                _REGISTER, self._frontend, self._version, self.url, self._lease
            )
            self._locked = await connection.fetchval(_TRY_LOCK, KEY_FRONTEND, self._key)
            if not self._locked:
                raise StoreUnavailable(
                    f"another frontend with the ID {self._frontend} runs: give each its own TRUNKLINE_FRONTEND_ID"
                )
            # What an earlier process of this ID left running may be taken by anybody, this one included; and it leads
            # nothing before it says that it is ready to.
            await connection.execute("UPDATE frontends SET candidate = false WHERE id = $1", self._frontend)
            await connection.execute(
                "UPDATE turns SET holder = '' WHERE holder = $1 AND state = 'running'", self._frontend
            )
        except BaseException:
            await connection.close(timeout=1.0)
            raise
        self._connection = connection

    async def beat(self) -> None:
        """Renew the lease. Raises StoreUnavailable; the next beat opens a new session."""
        try:
            if self._connection is None or self._connection.is_closed():
                self._connection = await self._database.own_connection("presence")
                self._key = await self._connection.fetchval(
                    _REGISTER, self._frontend, self._version, self.url, self._lease
                )
                self._locked = False
            if not self._locked:
                # After a lost session its lock may be held for a while; waiting would keep the lease from renewal.
                self._locked = await self._connection.fetchval(_TRY_LOCK, KEY_FRONTEND, self._key)
            await self._connection.execute(_BEAT, self._frontend, self._lease)
        except CONNECTION_ERRORS as problem:
            await self._drop()
            raise StoreUnavailable(f"the presence session was lost ({type(problem).__name__})") from problem

    async def leave(self) -> None:
        """Unregister; running turns of this frontend become claimable at once."""
        if self._connection is not None and not self._connection.is_closed():
            # Unheard, the lock still falls with the session, and the lease with time.
            with contextlib.suppress(*CONNECTION_ERRORS):
                await self._connection.execute(_LEAVE, self._frontend, timeout=2.0)
        await self._drop()

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()


async def frontends(connection: Connection) -> list[FrontendRow]:
    """All registered frontends, the dead ones of the last day included."""
    rows = await connection.fetch(_LIST, KEY_FRONTEND)
    return [FrontendRow(**dict(row)) for row in rows]


_TRY_LOCK = "SELECT pg_try_advisory_lock($1, $2)"

_REGISTER = """
INSERT INTO frontends (id, version, url, lease_until)
VALUES ($1, $2, $3, now() + make_interval(secs => $4::double precision))
ON CONFLICT (id) DO UPDATE SET version = $2, url = $3, lease_until = now() + make_interval(secs => $4::double precision),
  seen_at = now()
RETURNING lock_key
"""

_BEAT = """
UPDATE frontends SET seen_at = now(), lease_until = now() + make_interval(secs => $2::double precision) WHERE id = $1
"""

_LEAVE = """
WITH freed AS (UPDATE turns SET holder = '' WHERE holder = $1 AND state = 'running')
DELETE FROM frontends WHERE id = $1
"""

ALIVE = """
(f.lease_until > now() AND EXISTS (
  SELECT 1 FROM pg_locks k WHERE k.locktype = 'advisory' AND k.classid = $1::integer::oid
  AND k.objid = f.lock_key::oid AND k.granted
  AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())))
"""

_LIST = f"""
SELECT f.id, f.version, f.url, f.started_at, f.seen_at, {ALIVE} AS alive FROM frontends f
WHERE f.seen_at > now() - interval '1 day' ORDER BY f.started_at, f.id
"""  # noqa: S608 - no value is put into the text
