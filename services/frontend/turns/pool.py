"""Which turns this frontend runs: admission of lanes, claims, takeover of orphans, and the hand-over at a stop.

Signals make things happen soon; the sweep finds what a lost signal left behind; the watch finds turns whose frontend
is gone (its lock fell) or silent (its lease ended).
"""

import asyncio
from functools import partial
from typing import Protocol

import structlog

from services.frontend.turns import admission
from services.frontend.turns.lanes import Lanes
from services.frontend.turns.typing import Typing
from shared.bus import Bus, Subscription, subjects
from shared.config.sections import Limits
from shared.config.sections import Turns as TurnSettings
from shared.domain.errors import CallerFenced
from shared.domain.records import Lane, Turn
from shared.lifecycle import Tasks
from shared.lifecycle.points import Point, reached
from shared.observe import metrics
from shared.store import Database, StoreUnavailable, intake, turns
from shared.store.presence import Presence
from shared.store.repeat import attempt, repeat
from shared.store.requests import Request

log = structlog.get_logger(__name__)

#: seconds before a turn that hit a database outage goes on
STORE_PAUSE = 0.25
#: what one sweep or one look takes at most
SWEEP = 200
#: how often a turn that fails for an unknown reason is tried, before its sender gets a sentence, and the longest
#: pause between tries, in seconds
BROKEN_RETRIES, BROKEN_PAUSE = 3, 30.0


class Runs(Protocol):
    """What runs one turn; see `TurnRunner`."""

    async def run(self, turn: Turn, request: Request | None = None) -> Turn | None: ...

    async def give_up(self, turn: Turn) -> Turn | None: ...


class TurnPool:
    """All turns of one frontend. A Service."""

    def __init__(
        self,
        *,
        database: Database,
        bus: Bus,
        runner: Runs,
        presence: Presence,
        tasks: Tasks,
        typing: Typing,
        settings: TurnSettings,
        limits: Limits,
        holder: str,
        max_turns: int,
        grace_seconds: float,
    ) -> None:
        self._database = database
        self._bus = bus
        self._runner = runner
        self._presence = presence
        self._run_tasks = tasks
        self._settings = settings
        self._holder = holder
        self._max_turns = max_turns
        self._grace = grace_seconds
        self._tasks = Tasks("turns")
        self._running: dict[int, Turn] = {}
        self._strays: set[int] = set()
        self._subscriptions: list[Subscription] = []
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._lanes = Lanes(
            database=database,
            bus=bus,
            limits=limits,
            holder=holder,
            history=settings.history_messages,
            may_claim=self._may_claim,
            typing=typing,
            run=self.run,
        )

    @property
    def running(self) -> int:
        """How many turns run here now."""
        return len(self._running)

    async def start(self) -> None:
        await self._presence.enter()
        self._subscriptions = [
            self._bus.subscribe(subjects.INBOUND_READY, self._on_ready, queue="admission"),
            self._bus.subscribe(subjects.FRONTEND_GONE, self._on_frontend_gone),
        ]
        self._tasks.run("beat", repeat("beat", self._settings.renew_seconds, self._presence.beat))
        self._tasks.run("watch", repeat("watch", self._settings.watch_seconds, self._take_over_orphans))
        self._tasks.run("sweep", repeat("sweep", self._settings.sweep_seconds, self._sweep))

    async def stop(self) -> None:
        """Take nothing new, let running turns end within the grace time, hand the rest over."""
        self._draining = True
        for subscription in self._subscriptions:
            # Otherwise this one would go on to get, and lose, its share of the signals.
            subscription.cancel()
        await self._lanes.stop()
        # What this one was told of and has not decided on, or not claimed, is for the others to find.
        self._say_gone()
        if self._running:
            try:
                async with asyncio.timeout(self._grace):
                    await self._idle.wait()
            except TimeoutError:
                log.info("turns_handed_over", count=len(self._running))
        left = list(self._running.values())
        await self._run_tasks.stop()
        await self._tasks.stop()
        if left:
            try:
                await turns.hand_over(self._database, left)
            except StoreUnavailable:
                log.info("hand_over_unheard")
        await self._presence.leave()
        self._say_gone()

    def _say_gone(self) -> None:
        self._bus.publish(subjects.FRONTEND_GONE, subjects.FrontendGone(id=self._holder))

    def run(self, turn: Turn, request: Request | None = None) -> None:
        """Run a turn that this frontend has claimed; `request` is its first one, if it is known already."""
        if self._draining:
            self._tasks.run("hand_over", attempt("hand_over", partial(self._hand_over, turn)))
            return
        known = self._running.get(turn.id)
        if known is not None and known.epoch > turn.epoch:
            return
        self._running[turn.id] = turn
        metrics.TURNS_RUNNING.set(len(self._running))
        self._idle.clear()
        self._run_tasks.run("turn", self._run(turn, request))

    # -- signals and sweeps -----------------------------------------------------------------------------

    async def _on_ready(self, key: str, ready: subjects.InboundReady) -> None:  # noqa: ARG002
        self._lanes.admit(Lane(ready.binding, ready.chat))

    async def _on_frontend_gone(self, key: str, gone: subjects.FrontendGone) -> None:  # noqa: ARG002
        if gone.id != self._holder:
            await attempt("take_over", self._take_over_orphans)
            await attempt("sweep", partial(self._find_waiting, 0.0))

    async def _sweep(self) -> None:
        if self._draining:
            return
        await self._find_waiting(self._settings.sweep_seconds)
        await self._take_up_strays()
        metrics.OLDEST_WAITING.set(await intake.oldest_waiting(self._database))

    async def _find_waiting(self, age: float) -> None:
        """Take up messages, and chats without a turn, that have waited for `age` seconds."""
        for binding_id, chat in await intake.waiting_lanes(self._database, older_than=age, limit=SWEEP):
            self._lanes.sweep(Lane(binding_id, chat))
        for chat_id, binding_id, platform_chat in await turns.waiting_chats(
            self._database, older_than=age, limit=SWEEP
        ):
            if not self._may_claim():
                return
            await self.claim(chat_id, Lane(binding_id, platform_chat) if binding_id else None)

    async def _take_up_strays(self) -> None:
        """Run what this frontend has claimed without hearing of it, because a connection broke at the commit."""
        strays = await turns.held(self._database, self._holder, except_ids=list(self._running), limit=SWEEP)
        # One that is seen for the first time may have been claimed this very moment.
        lost = [turn for turn in strays if turn.id in self._strays]
        self._strays = {turn.id for turn in strays}
        for turn in lost:
            await self._take_over(turn)

    async def _take_over_orphans(self) -> None:
        if self._draining:
            return
        for orphan in await turns.orphans(self._database, SWEEP):
            if orphan.id in self._running and self._running[orphan.id].epoch == orphan.epoch:
                # Ours, with our own presence in doubt: going on under a new epoch would only fence ourselves.
                continue
            if not self._may_claim():
                return
            await self._take_over(orphan)

    async def _take_over(self, turn: Turn) -> None:
        taken = await turns.take_over(self._database, turn, self._holder)
        if taken is not None:
            log.info("turn_taken_over", turn=taken.id, epoch=taken.epoch)
            metrics.TAKEOVERS.inc()
            self.run(taken)

    async def _hand_over(self, turn: Turn) -> None:
        await turns.hand_over(self._database, [turn])
        self._say_gone()

    def _may_claim(self) -> bool:
        return not self._draining and len(self._running) < self._max_turns

    async def claim(self, chat_id: str, lane: Lane | None) -> None:
        """Start a turn for a chat that waits, if it still does and nobody else has it."""
        if self._draining:
            return  # the sweep of another finds it
        async with self._database.transaction() as connection:
            turn = await admission.claim(connection, chat_id, lane, holder=self._holder)
        if turn is None:
            return
        await reached(Point.CLAIM_AFTER)
        if lane is not None:
            self._bus.publish(subjects.SEND, subjects.Send(chats=[lane.platform_chat]), key=lane.binding_id)
        self.run(turn)

    # -- running ----------------------------------------------------------------------------------------

    async def _run(self, turn: Turn, request: Request | None) -> None:
        try:
            with metrics.TURN_SECONDS.time():
                following = await self._run_to_its_end(turn, request)
        finally:
            if self._running.get(turn.id) is turn:
                del self._running[turn.id]
            metrics.TURNS_RUNNING.set(len(self._running))
            if not self._running:
                self._idle.set()
        if following is not None:
            self.run(following)

    async def _run_to_its_end(self, turn: Turn, request: Request | None) -> Turn | None:
        """Run through outages of the database; a turn that breaks again and again ends with a sentence."""
        broken = 0
        while True:
            try:
                if broken >= BROKEN_RETRIES:
                    return await self._runner.give_up(turn)
                return await self._runner.run(turn, request)
            except CallerFenced:
                log.info("turn_fenced", turn=turn.id, epoch=turn.epoch)
                metrics.TURNS.labels("fenced").inc()
                return None
            except StoreUnavailable:
                pause = STORE_PAUSE
            except Exception:
                log.exception("turn_broke", turn=turn.id)
                pause = min(STORE_PAUSE * 2**broken, BROKEN_PAUSE)
                broken += 1
            await asyncio.sleep(pause)
            # What the first try has stored is part of the next one's transcript.
            request = None
