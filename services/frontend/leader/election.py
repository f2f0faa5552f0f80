"""Wins, keeps and loses the term of one shard.

    follower ──lock won──> leader: announce to the owner, start duties ──stop, hand-over──> release, signal
       ^                      │ renewal failed, trust over, fenced, duties cannot start
       └──────────────────────┘ without the owner for 10 s: release and abstain for 30 s

Duties are services: started on gain, stopped on loss. They act only while the term is trusted.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable

import asyncpg
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
    """One shard's election in one frontend. A Service; it tries when it is told to, see `Leadership`.

    `ended` is called when a term is over and the shard is free again.
    """

    def __init__(
        self,
        *,
        database: Database,
        bus: Bus,
        settings: LeaderSettings,
        holder: str,
        shard: int,
        duties: Callable[[Term], Service],
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._bus = bus
        self._settings = settings
        self._duties = duties
        self._ended = ended
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
        self._abstain_until = 0.0
        self.shard = shard
        self.term: Term | None = None

    @property
    def busy(self) -> bool:
        """Whether it tries or leads."""
        return len(self._tasks) > 0

    @property
    def ready(self) -> bool:
        """Whether it may try: not for a while after the owner was out of reach."""
        return time.monotonic() >= self._abstain_until

    async def start(self) -> None:
        """Nothing is tried before the first `attempt`."""

    async def stop(self) -> None:
        """Stop the duties, give the term back and say so: the next one takes it at once."""
        await self._tasks.stop()
        await self._lease.close()

    def attempt(self, session: asyncpg.Connection | None = None) -> None:
        """Try once to win, over `session` if one is open, and lead until the term is over."""
        self._tasks.run("attempt", self._attempt(session))

    def hand_over(self) -> bool:
        """Begin to end the term, as a stop does; False when there is none, or it is ending already."""
        if self.term is None or self.term.lost.is_set():
            return False
        log.info("leadership_handed_over", shard=self.shard, term=self.term.number)
        self.term.lost.set()
        return True

    async def _attempt(self, session: asyncpg.Connection | None) -> None:
        try:
            if not await self._lease.try_acquire(session=session):
                # Somebody else was faster; a session is of use to its leader only.
                await self._lease.close()
                return
            await self._lead()
        except StoreUnavailable as problem:
            log.info("election_waits_for_the_database", shard=self.shard, problem=str(problem))
        except Exception:
            # Whatever failed, this frontend stays a candidate: it may be the only one.
            log.exception("election_failed", shard=self.shard)
        else:
            self._ended()

    async def _lead(self) -> None:
        term = Term(self._lease, self.shard)
        log.info("leadership_won", shard=self.shard, term=term.number)
        metrics.LEADER_TERM.labels(str(self.shard)).set(term.number)
        duties = self._duties(term)
        self.term = term
        try:
            await duties.start()
            self._bus.publish(subjects.LEADER, subjects.LeaderChanged(term=term.number), key=str(self.shard))
            await self._keep(term)
        finally:
            self.term = None
            term.lost.set()
            try:
                await duties.stop()
            finally:
                log.info("leadership_ended", shard=self.shard, term=term.number)
                metrics.LEADER_TERM.labels(str(self.shard)).set(0)
                await self._lease.release()
                self._bus.publish(subjects.LEADER, subjects.LeaderChanged(released=True), key=str(self.shard))

    async def _keep(self, term: Term) -> None:
        """Renew until the term is lost, for whatever reason."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(term.lost.wait(), self._settings.renew_seconds)
            if term.lost.is_set():
                return
            # A renewal that hangs must not outlive the trust: the duties check it at every act.
            if not await self._lease.renew():
                log.warning("leadership_lost", shard=self.shard, term=term.number)
                return
            if time.monotonic() - term.owner_seen_at > self._settings.owner_loss_seconds:
                log.warning("leader_without_owner_abstains", shard=self.shard, term=term.number)
                self._abstain_until = time.monotonic() + self._settings.abstain_seconds
                return
