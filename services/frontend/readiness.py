"""What `/readyz` of a frontend says: whether it can answer people, and how long the oldest one waits."""

import time
from collections.abc import Callable

from shared.bus import Bus
from shared.observe import metrics
from shared.observe.health import Finding, Health
from shared.store import Database, StoreUnavailable, intake


class Readiness:
    """Checks of one frontend. The bus may be away: everything still works, later."""

    def __init__(self, database: Database, bus: Bus) -> None:
        self._database = database
        self._bus = bus
        self._last_poll = 0.0
        #: the shards that this frontend leads, with the term of each
        self.terms: Callable[[], dict[int, int]] = dict
        #: the shards that are led by others and are none of this frontend's
        self.foreign: Callable[[], tuple[int, ...]] = tuple

    def watch(self, health: Health) -> None:
        health.add("database", self._check_database)
        health.add("bus", self._check_bus)
        health.add("messages", self._check_messages)
        health.add("leadership", self._check_leadership)

    def poll_completed(self) -> None:
        """A poll of this leader came back."""
        self._last_poll = time.time()
        metrics.LAST_POLL.set(self._last_poll)

    async def _check_database(self) -> Finding:
        try:
            await self._database.fetchval("SELECT 1")
        except StoreUnavailable as problem:
            return Finding(ok=False, sentence=str(problem))
        return Finding(ok=True)

    async def _check_bus(self) -> Finding:
        sentence = (
            "" if self._bus.connected else "signals are lost; everything is found by sweeping, a little later"
        )
        return Finding(
            ok=True, sentence=sentence, facts={"connected": self._bus.connected, "dropped": self._bus.dropped}
        )

    async def _check_messages(self) -> Finding:
        """A deaf channel or a stuck lane shows here while everything else looks well (case TG-20)."""
        try:
            oldest = await intake.oldest_waiting(self._database)
        except StoreUnavailable:
            return Finding(ok=True, facts={"oldest_waiting_seconds": None})
        metrics.OLDEST_WAITING.set(oldest)
        leads = self._last_poll and self.terms()
        last = round(time.time() - self._last_poll, 3) if leads else None
        return Finding(ok=True, facts={"oldest_waiting_seconds": round(oldest, 3), "last_poll_seconds": last})

    async def _check_leadership(self) -> Finding:
        """Which shards are led here, and under which term. Leading none is as it should be for most."""
        foreign = self.foreign()
        sentence = (
            "another frontend is set to more shards than this one: give all the same TRUNKLINE_POLL_SHARDS"
            if foreign
            else ""
        )
        terms = {str(shard): term for shard, term in self.terms().items()}
        return Finding(ok=True, sentence=sentence, facts={"terms": terms, "foreign_shards": list(foreign)})
