"""Locks and terms: who leads a shard, and who owns an add-on root.

A session advisory lock on a connection of its own elects: it falls free at once when its process dies. A row of
`leases` on the database clock makes it safe: winning adds one to the term, the holder renews, and it trusts itself
only for `trust` seconds counted from when a renewal was SENT, which ends before anybody else may win by `takeover`.
A stopped process keeps its lock for ever; a lease older than `takeover` is the licence to end its session.
Source: architecture, "Leadership".
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import asyncpg
import structlog

from shared.store.database import CONNECTION_ERRORS, Connection, Database, StoreUnavailable

log = structlog.get_logger(__name__)

#: class of the advisory locks that elect the polling frontend; the object is the shard
KEY_CHATS_CONNECTORS = 7_264_010
#: class of the locks of add-on roots; the object is derived from the root's ID
KEY_OWNER = 7_264_011


@dataclass(frozen=True, slots=True)
class Timing:
    """All in seconds; renew < trust < takeover."""

    renew: float
    trust: float
    takeover: float


class Lease:
    """One attempt after another to hold a named lease; `term` is above 0 while it is held.

    `clock` is a monotonic clock in seconds. A lost database connection loses the lease.
    """

    def __init__(
        self,
        database: Database,
        *,
        name: str,
        shard: int,
        lock: tuple[int, int],
        holder: str,
        timing: Timing,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._key = (name, shard)
        self._lock = lock
        self._holder = holder
        self._timing = timing
        self._clock = clock
        self._connection: asyncpg.Connection | None = None
        self._trusted_until = 0.0
        self.term = 0

    @property
    def trusted(self) -> bool:
        """Whether acts under this term are allowed right now."""
        return self.term > 0 and self._clock() < self._trusted_until

    async def try_acquire(
        self, *, whatever_the_lease: bool = True, session: asyncpg.Connection | None = None
    ) -> bool:
        """Try once to win; False when another holds it. Raises StoreUnavailable.

        A leader needs the lock alone. With `whatever_the_lease` off, the lease must also be released or run out:
        its holder may have lost only its session. `session` is one that is open already, and belongs to this lease
        from now on.
        """
        sent = self._clock()
        self._connection = session or self._connection
        try:
            connection = await self._open()
            term = await self._win(connection, whatever_the_lease)
            if term is None and await self._end_silent_holder(connection):
                term = await self._win(connection, whatever_the_lease)
        except CONNECTION_ERRORS as problem:
            await self._drop()
            raise StoreUnavailable(
                f"the election lost its connection ({type(problem).__name__})"
            ) from problem
        self.term = term or 0
        self._trusted_until = sent + self._timing.trust
        return self.term > 0

    async def _win(self, connection: asyncpg.Connection, whatever_the_lease: bool) -> int | None:
        term: int | None = await connection.fetchval(
            _WIN, *self._key, self._holder, whatever_the_lease, self._timing.takeover, *self._lock
        )
        return term

    async def renew(self) -> bool:
        """Renew the term; False when it is lost. The old trust stays until then, never longer."""
        if not self.term or self._connection is None:
            return False
        sent = self._clock()
        try:
            kept = await self._connection.fetchval(
                _RENEW, *self._key, self._holder, self.term, timeout=self._timing.trust
            )
        except CONNECTION_ERRORS:
            kept = False
        if not kept:
            await self.lose()
            return False
        self._trusted_until = sent + self._timing.trust
        return True

    async def release(self) -> None:
        """Give the term back, so that the next may win at once."""
        if self.term and self._connection is not None:
            try:
                await self._connection.execute(_RELEASE, *self._key, self._holder, self.term, timeout=2.0)
            except CONNECTION_ERRORS:
                log.info("lease_release_unheard", lease=self._key[0], shard=self._key[1])
        await self.lose()

    async def lose(self) -> None:
        """Stop trusting at once and give up the session lock."""
        self.term = 0
        self._trusted_until = 0.0
        await self._drop()

    async def close(self) -> None:
        await self.release()

    async def _open(self) -> asyncpg.Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._database.own_connection(self._key[0])
        return self._connection

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # A session that cannot say goodbye is cut: its lock falls with the socket.
            try:
                await connection.close(timeout=0.5)
            except (TimeoutError, *CONNECTION_ERRORS):
                connection.terminate()

    async def _end_silent_holder(self, connection: asyncpg.Connection) -> bool:
        """End the session of a holder that has not renewed for too long; whether there was one."""
        ended = await connection.fetchval(_END_SILENT, *self._key, self._timing.takeover, *self._lock)
        if ended is not None:
            log.warning("silent_lease_holder_ended", lease=self._key[0], shard=self._key[1])
        return ended is not None


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A lease as it is stored; `age_seconds` is the time since it was renewed."""

    name: str
    shard: int
    term: int
    holder: str
    released: bool
    age_seconds: float


async def read(connection: Connection, name: str) -> list[LeaseRow]:
    """The leases of a name, by shard."""
    rows = await connection.fetch(_READ, name)
    return [LeaseRow(**dict(row)) for row in rows]


async def renew_term(connection: Connection, name: str, holder: str, term: int) -> bool:
    """Renew shard 0 of a lease over any connection; False when it is no longer this holder's term."""
    return bool(await connection.fetchval(_RENEW, name, 0, holder, term))


_READ = """
SELECT name, shard, term, holder, released,
  extract(epoch FROM clock_timestamp() - renewed_at)::double precision AS age_seconds
FROM leases WHERE name = $1 ORDER BY shard
"""

# Lock and term in one statement: no process can stand still between them and keep the lock under another's term.
# One counter for all leases: a binding that moves to another shard, because their number was changed, meets no term
# there that its cursor has outgrown.
_WIN = """
WITH elected AS MATERIALIZED (SELECT pg_try_advisory_lock($6, $7) AS locked)
INSERT INTO leases AS l (name, shard, term, holder, backend_pid, renewed_at, released)
SELECT $1, $2, nextval('terms'), $3, pg_backend_pid(), clock_timestamp(), false FROM elected WHERE locked
ON CONFLICT (name, shard) DO UPDATE SET term = greatest(excluded.term, l.term + 1), holder = $3, backend_pid = pg_backend_pid(),
  renewed_at = clock_timestamp(), released = false
WHERE $4 OR l.released OR l.renewed_at < clock_timestamp() - make_interval(secs => $5::double precision)
RETURNING term
"""

_RENEW = """
UPDATE leases SET renewed_at = clock_timestamp()
WHERE name = $1 AND shard = $2 AND holder = $3 AND term = $4 RETURNING true
"""

_RELEASE = """
UPDATE leases SET released = true, renewed_at = clock_timestamp()
WHERE name = $1 AND shard = $2 AND holder = $3 AND term = $4
"""

# Only the session that holds the very lock is ended, so a reused backend number cannot be hit; its end is waited for
# half a second, so that the lock can be had at once.
_END_SILENT = """
SELECT bool_or(pg_terminate_backend(k.pid, 500)) FROM leases l
JOIN pg_locks k ON k.locktype = 'advisory' AND k.classid = $4::integer::oid AND k.objid = $5::integer::oid
  AND k.granted AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND k.pid <> pg_backend_pid()
WHERE l.name = $1 AND l.shard = $2
  AND l.renewed_at < clock_timestamp() - make_interval(secs => $3::double precision)
"""
