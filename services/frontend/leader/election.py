"""Wins, keeps and loses the term of one shard.

    follower ──lock won──> leader: announce to the owner, start duties ──stop──> release, signal
       ^                      │ renewal failed, trust over, fenced, duties cannot start
       └──────────────────────┘ without the owner for 10 s: release and abstain for 30 s

Duties are services: started on gain, stopped on loss. They act only while the term is trusted.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable

import structlog

from shared.bus import Bus, subjects
from shared.config.sections import Leader as LeaderSettings
from shared.lifecycle import Service, Tasks
from shared.observe import metrics
from shared.store import Database, StoreUnavailable
from shared.store.leases import KEY_CHATS_CONNECTORS, Lease, Timing

log = structlog.get_logger(__name__)


class Term:
    """A term that was won: a number, and whether acting under it is allowed right now."""

    def __init__(self, lease: Lease, shard: int) -> None:
        self._lease = lease
        self.shard = shard
        self.number = lease.term
        self.lost = asyncio.Event()
        self.owner_seen_at = time.monotonic()

    @property
    def trusted(self) -> bool:
        return not self.lost.is_set() and self._lease.term == self.number and self._lease.trusted

    def owner_answered(self) -> None:
        """The owner was reached: the leader without an owner is of no use (see `owner_loss_seconds`)."""
        self.owner_seen_at = time.monotonic()


class Election:
    """One shard's election in one frontend. A Service."""

    def __init__(
        self,
        *,
        database: Database,
        bus: Bus,
        settings: LeaderSettings,
        holder: str,
        shard: int,
        duties: Callable[[Term], Service],
    ) -> None:
        self._bus = bus
        self._settings = settings
        self._shard = shard
        self._duties = duties
        timing = Timing(settings.renew_seconds, settings.trust_seconds, settings.takeover_seconds)
        self._lease = Lease(
            database,
            name="leader",
            shard=shard,
            lock=(KEY_CHATS_CONNECTORS, shard),
            holder=holder,
            timing=timing,
        )
        self._tasks = Tasks(f"election-{shard}")
        self._wake = asyncio.Event()
        self._abstain_until = 0.0
        self.term: Term | None = None

    async def start(self) -> None:
        self._bus.subscribe(subjects.LEADER, self._on_signal, key=str(self._shard))
        self._tasks.run("run", self._run())

    async def stop(self) -> None:
        """Stop the duties, give the term back and say so: the next one takes it at once."""
        held = self.term is not None
        await self._tasks.stop()
        await self._lease.close()
        if held:
            self._bus.publish(subjects.LEADER, subjects.LeaderChanged(released=True), key=str(self._shard))

    async def _on_signal(self, key: str, signal: subjects.LeaderChanged) -> None:  # noqa: ARG002
        if signal.released:
            self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                if self._may_try() and await self._lease.try_acquire():
                    await self._lead()
            except StoreUnavailable as problem:
                log.info("election_waits_for_the_database", shard=self._shard, problem=str(problem))
            except Exception:
                # Whatever failed, this frontend stays a candidate: it may be the only one.
                log.exception("election_failed", shard=self._shard)
            self._wake.clear()
            pause = self._settings.try_seconds * random.uniform(0.8, 1.2)  # noqa: S311 - spreads the frontends
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), pause)

    def _may_try(self) -> bool:
        return time.monotonic() >= self._abstain_until

    async def _lead(self) -> None:
        term = Term(self._lease, self._shard)
        log.info("leadership_won", shard=self._shard, term=term.number)
        metrics.LEADER_TERM.labels(str(self._shard)).set(term.number)
        duties = self._duties(term)
        self.term = term
        try:
            await duties.start()
            self._bus.publish(subjects.LEADER, subjects.LeaderChanged(term=term.number), key=str(self._shard))
            await self._keep(term)
        finally:
            self.term = None
            term.lost.set()
            try:
                await duties.stop()
            finally:
                log.info("leadership_ended", shard=self._shard, term=term.number)
                metrics.LEADER_TERM.labels(str(self._shard)).set(0)
                await self._lease.release()

    async def _keep(self, term: Term) -> None:
        """Renew until the term is lost, for whatever reason."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(term.lost.wait(), self._settings.renew_seconds)
            if term.lost.is_set():
                return
            # A renewal that hangs must not outlive the trust: the duties check it at every act.
            if not await self._lease.renew():
                log.warning("leadership_lost", shard=self._shard, term=term.number)
                return
            if time.monotonic() - term.owner_seen_at > self._settings.owner_loss_seconds:
                log.warning("leader_without_owner_abstains", shard=self._shard, term=term.number)
                self._abstain_until = time.monotonic() + self._settings.abstain_seconds
                return
