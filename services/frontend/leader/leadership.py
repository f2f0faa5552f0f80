"""Which shards this frontend tries to lead, and which it hands over.

It looks at who lives and who leads, every quarter of a second or sooner on a signal, and works out how the shards
should be spread. It tries what the spread gives to it at once, and anything that nobody has led for a while: a wrong
or stale view costs that while, and never leaves a shard unled. What it leads beyond its share it hands over.

All frontends must be set to the same number of shards. Where one sees a shard led that it does not have, it says so: the
same binding may be read by two leaders then, each of which takes the position from the other.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Callable

import asyncpg
import structlog

from services.frontend.leader.election import Election, Term
from services.frontend.leader.spread import spread
from shared.bus import Bus, subjects
from shared.config.sections import Leader as LeaderSettings
from shared.lifecycle import Service, Tasks
from shared.observe import metrics
from shared.store import Database, StoreUnavailable
from shared.store.database import CONNECTION_ERRORS
from shared.store.leadership import Standing, stand, standing

log = structlog.get_logger(__name__)

#: looks that a shard may be without a leader before somebody takes it whom the spread does not give it to
PATIENCE = 2
#: longest time in seconds to say that this frontend stops to lead
FAREWELL = 0.5


class Leadership:
    """All shards of one frontend. A Service.

    `duties` makes what runs under a term that was won.
    """

    def __init__(
        self,
        *,
        database: Database,
        bus: Bus,
        settings: LeaderSettings,
        holder: str,
        shards: int,
        duties: Callable[[Term], Service],
    ) -> None:
        self._database = database
        self._bus = bus
        self._settings = settings
        self._holder = holder
        self._wake = asyncio.Event()
        self._elections = [
            Election(
                database=database,
                bus=bus,
                settings=settings,
                holder=holder,
                shard=shard,
                duties=duties,
                ended=self._wake.set,
            )
            for shard in range(shards)
        ]
        self._tasks = Tasks("leadership")
        #: the session of the looks; the next try gets it, since opening one takes longer than winning
        self._session: asyncpg.Connection | None = None
        #: shard -> since when this frontend has seen it without a leader
        self._unled: dict[int, float] = {}
        #: shards that somebody leads and this frontend does not have, at the last look
        self.foreign: tuple[int, ...] = ()
        #: until when nothing is handed over, because somebody did not take what was given to it
        self._keep_until = 0.0

    @property
    def terms(self) -> dict[int, int]:
        """The shards that this frontend leads, and under which term."""
        return {e.shard: e.term.number for e in self._elections if e.term is not None}

    async def start(self) -> None:
        for election in self._elections:
            metrics.LEADER_TERM.labels(str(election.shard)).set(0)
        self._subscription = self._bus.subscribe(subjects.LEADER, self._on_signal)
        self._tasks.run("look", self._look_for_ever())

    async def stop(self) -> None:
        """Be no candidate any more, then give every shard back and say so: the next ones take them at once."""
        if hasattr(self, "_subscription"):
            self._subscription.cancel()
        await self._tasks.stop()
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await stand(self._database, self._holder, candidate=False)
        stops = Tasks("leadership-stop")
        await asyncio.gather(*(stops.run(f"shard {e.shard}", e.stop()) for e in self._elections))
        await self._close_session()

    async def _on_signal(self, key: str, signal: subjects.LeaderChanged) -> None:  # noqa: ARG002
        if signal.released:
            self._wake.set()

    # -- looking ----------------------------------------------------------------------------------------

    async def _look_for_ever(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._look()
            except StoreUnavailable as problem:
                log.info("election_waits_for_the_database", problem=str(problem))
            except Exception:
                # Whatever failed, this frontend stays a candidate: it may be the only one.
                log.exception("election_failed")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._pause())

    def _pause(self) -> float:
        """Seconds to the next look. Who leads everything waits for nobody's death, only for newcomers."""
        everything = all(election.term is not None for election in self._elections)
        seconds = self._settings.renew_seconds if everything else self._settings.try_seconds
        return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - spreads the frontends

    async def _look(self) -> None:
        ready = all(election.ready for election in self._elections)
        seen = await self._read(ready)
        self._note_foreign(seen)
        # Of itself a frontend knows best, whatever its row says.
        candidates = seen.candidates | {self._holder} if ready else seen.candidates - {self._holder}
        wanted = spread(len(self._elections), candidates, seen.led, seen.last)
        for election in self._elections:
            ours = wanted.get(election.shard) == self._holder
            if election.busy and not ours:
                self._hand_over(election)
            elif election.busy or election.shard in seen.led:
                self._unled.pop(election.shard, None)
            elif ready and ours:
                self._try(election)
            elif ready and self._patience_is_over(election.shard):
                self._keep_until = time.monotonic() + self._settings.abstain_seconds
                self._try(election)

    def _note_foreign(self, seen: Standing) -> None:
        """Warn once of each time that another number of shards is at work besides this one's."""
        foreign = seen.beyond(len(self._elections))
        if foreign and not self.foreign:
            log.warning("numbers_of_shards_differ", shards=len(self._elections), led_beyond=list(foreign))
        self.foreign = foreign

    async def _read(self, ready: bool) -> Standing:
        """What is stored now; says there whether this frontend is a candidate. Raises StoreUnavailable."""
        try:
            if self._session is None or self._session.is_closed():
                self._session = await self._database.own_connection("leader")
            seen = await standing(self._session, takeover_seconds=self._settings.takeover_seconds)
            if ready != (self._holder in seen.candidates):
                await stand(self._session, self._holder, candidate=ready)
        except CONNECTION_ERRORS as problem:
            await self._close_session()
            raise StoreUnavailable(
                f"the election lost its connection ({type(problem).__name__})"
            ) from problem
        return seen

    def _patience_is_over(self, shard: int) -> bool:
        """Whether nobody has led this shard for so long that anybody should. Tells the others when that begins."""
        now = time.monotonic()
        if shard not in self._unled:
            self._unled[shard] = now
            self._bus.publish(subjects.LEADER, subjects.LeaderChanged(released=True), key=str(shard))
        return now - self._unled[shard] >= PATIENCE * self._settings.try_seconds

    # -- acting -----------------------------------------------------------------------------------------

    def _try(self, election: Election) -> None:
        session, self._session = self._session, None
        election.attempt(session)

    def _hand_over(self, election: Election) -> None:
        """Give back what is another's; its own patience with that shard begins later than that of the others."""
        now = time.monotonic()
        if now >= self._keep_until and election.hand_over():
            self._unled[election.shard] = now + PATIENCE * self._settings.try_seconds

    async def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.terminate()
