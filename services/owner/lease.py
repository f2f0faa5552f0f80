"""One active owner of an add-on root.

    starting ──won──> active ──renewal too old──> fenced ──renewed, nobody took over──> active
                        └────────newer term──────────────────────────────────────────> fenced for good

A fenced owner has no add-ons and executes nothing. Losing only the database session fences nobody: a restart of
Postgres must not restart every link. On one machine the kernel's file locks prove that an earlier owner and its
add-ons have ended; elsewhere the lease must have run out, by when they have ended themselves.
"""

import asyncio
import os
import time
import zlib
from collections.abc import Awaitable, Callable

import structlog

from services.owner.root import SecondOwner, machine
from shared.config.sections import Owner as OwnerSettings
from shared.lifecycle import Tasks
from shared.store import Database, StoreUnavailable, leases
from shared.store.leases import KEY_OWNER, Lease, Timing

log = structlog.get_logger(__name__)

#: seconds between tries
PAUSE = 0.1


class OwnerLease:
    """The term of this owner; `root_id` is set before the start. `on_fenced` stops everything that acts, `on_resumed` starts it again."""

    def __init__(
        self,
        database: Database,
        *,
        settings: OwnerSettings,
        on_fenced: Callable[[], Awaitable[None]],
        on_resumed: Callable[[], Awaitable[None]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self.root_id = ""
        self._holder = f"{machine()}/{os.getpid()}"
        self._settings = settings
        self._on_fenced = on_fenced
        self._on_resumed = on_resumed
        self._clock = clock
        self._tasks = Tasks("owner-lease")
        self._lease: Lease | None = None
        self._renewed_at = 0.0
        self._superseded = False
        self.term = 0
        self.fenced = False

    @property
    def trusted(self) -> bool:
        """Whether acting under this term is allowed right now."""
        trust = self._settings.lease_trust_seconds
        return self.term > 0 and not self.fenced and self._clock() < self._renewed_at + trust

    async def start(self) -> None:
        """Win the term. Raises SecondOwner when another owner of the root is alive, StoreUnavailable."""
        self._lease = lease = self._new_lease()
        give_up = self._clock() + self._settings.lease_seconds + 2 * self._settings.lease_trust_seconds
        while True:
            sent = self._clock()
            holder = await self._read()
            # Our file locks prove that an owner of this very machine has ended, add-ons included.
            proven = holder is None or holder.holder.rpartition("/")[0] == machine()
            if await lease.try_acquire(whatever_the_lease=proven):
                break
            if self._clock() > give_up:
                name = holder.holder if holder else "unknown"
                raise SecondOwner(
                    f"another owner ({name}) runs these add-ons: stop it first, or use another root"
                )
            await asyncio.sleep(PAUSE)
        self.term = lease.term
        self._renewed_at = sent
        self._tasks.run("renew", self._renew_for_ever())
        self._tasks.run("watch", self._watch_for_ever())

    async def stop(self) -> None:
        await self._tasks.stop()
        if self._lease is not None:
            await self._lease.release()
        self.term = 0

    @property
    def _name(self) -> str:
        return f"owner:{self.root_id}"

    def _new_lease(self) -> Lease:
        settings = self._settings
        timing = Timing(settings.lease_renew_seconds, settings.lease_trust_seconds, settings.lease_seconds)
        lock = (KEY_OWNER, zlib.crc32(self.root_id.encode()) & 0x7FFFFFFF)
        return Lease(
            self._database,
            name=self._name,
            shard=0,
            lock=lock,
            holder=self._holder,
            timing=timing,
            clock=self._clock,
        )

    async def _read(self) -> leases.LeaseRow | None:
        rows = await leases.read(self._database, self._name)
        return rows[0] if rows else None

    async def _renew_for_ever(self) -> None:
        """Renew as often as the database answers; what follows, the watch decides by the clock alone."""
        while not self._superseded:
            await asyncio.sleep(self._settings.lease_renew_seconds)
            sent = self._clock()
            try:
                kept = await leases.renew_term(self._database, self._name, self._holder, self.term)
            except StoreUnavailable as problem:
                log.info("owner_lease_waits_for_the_database", problem=str(problem))
                continue
            if kept:
                self._renewed_at = sent
            else:
                self._superseded = True

    async def _watch_for_ever(self) -> None:
        """Fence between the end of the trust and the end of the lease, so that add-ons end before others may start."""
        trust = self._settings.lease_trust_seconds
        limit = (trust + self._settings.lease_seconds) / 2
        while True:
            await asyncio.sleep(PAUSE)
            age = self._clock() - self._renewed_at
            if self._superseded:
                await self._fence("a newer owner has taken over")
                return
            if not self.fenced and age > limit:
                await self._fence("its lease has run out without the database")
            elif self.fenced and age < trust:
                await self._resume()

    async def _fence(self, why: str) -> None:
        if self.fenced:
            return
        log.error("owner_fenced", why=why, term=self.term)
        self.fenced = True
        try:
            await self._on_fenced()
        except Exception:
            log.exception("fencing_failed")

    async def _resume(self) -> None:
        """Act again; when that fails, as it does when the database is away once more, the next look tries again."""
        try:
            await self._on_resumed()
        except Exception:
            log.exception("resuming_failed")
            return
        self.fenced = False
        log.warning("owner_resumed", term=self.term)
