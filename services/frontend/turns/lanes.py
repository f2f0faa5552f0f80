"""Admission of lanes, many at a time: what is asked for while one transaction runs is decided in the next.

A lane that fails spoils nobody else's admission: a batch that breaks is done again lane by lane.
"""

from collections.abc import Callable, Sequence

import structlog

from services.frontend.turns import admission
from services.frontend.turns.admission import Outcome
from services.frontend.turns.typing import Spot, Typing
from shared.bus import Bus, subjects
from shared.config.sections import Limits
from shared.domain.records import Lane, Turn
from shared.lifecycle import Tasks
from shared.lifecycle.batching import Batcher
from shared.lifecycle.points import Point, reached
from shared.observe import metrics
from shared.store import Database, StoreUnavailable
from shared.store.requests import Request

log = structlog.get_logger(__name__)


class Lanes:
    """The lanes that this frontend admits.

    `may_claim` says whether it may take turns; `run` takes those it has claimed. A Service.
    """

    def __init__(
        self,
        *,
        database: Database,
        bus: Bus,
        limits: Limits,
        holder: str,
        history: int,
        may_claim: Callable[[], bool],
        typing: Typing,
        run: Callable[[Turn, Request], None],
    ) -> None:
        self._database = database
        self._bus = bus
        self._limits = limits
        self._holder = holder
        self._history = history
        self._may_claim = may_claim
        self._typing = typing
        self._run = run
        self._tasks = Tasks("lanes")
        self._batches: Batcher[Lane, Outcome] = Batcher("admit", self._tasks, self._admit_all, largest=50)
        self._working: dict[Lane, bool] = {}
        self._stopping = False

    async def start(self) -> None:
        """Nothing is admitted before the first signal or sweep."""

    async def stop(self) -> None:
        """Let what is being decided be decided."""
        self._stopping = True
        await self._tasks.stop(grace=2.0)

    def admit(self, lane: Lane) -> None:
        """Something may wait in this lane. Cheap, and safe to call too often."""
        if self._stopping:
            return
        if lane in self._working:
            self._working[lane] = True
            return
        self._working[lane] = False
        self._tasks.run("lane", self._work(lane))

    def sweep(self, lane: Lane) -> None:
        """The same for a lane that was found waiting; one that is being worked on needs no second look."""
        if lane not in self._working:
            self.admit(lane)

    async def _work(self, lane: Lane) -> None:
        try:
            while True:
                self._working[lane] = False
                outcome = await self._batches.add(lane)
                self._tell(lane, outcome)
                if self._stopping or not (outcome.more or self._working[lane]):
                    return
        except StoreUnavailable as problem:
            log.info("admission_waits_for_the_database", problem=str(problem))  # the sweep comes back to it
        finally:
            self._working.pop(lane, None)

    async def _admit_all(self, lanes: Sequence[Lane]) -> Sequence[Outcome]:
        try:
            outcomes = await self._admit(lanes)
        except StoreUnavailable:
            raise
        except Exception:
            if len(lanes) == 1:
                raise
            log.exception("admission_batch_broke", lanes=len(lanes))
            outcomes = {}
            for lane in lanes:
                outcomes |= await self._admit_alone(lane)
        return [outcomes[lane] for lane in lanes]

    async def _admit_alone(self, lane: Lane) -> dict[Lane, Outcome]:
        try:
            return await self._admit([lane])
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("admission_broke", binding=lane.binding_id)
            return {lane: Outcome()}

    async def _admit(self, lanes: Sequence[Lane]) -> dict[Lane, Outcome]:
        await reached(Point.ADMISSION_BEFORE)
        async with self._database.transaction() as connection:
            outcomes = await admission.admit(
                connection,
                lanes,
                holder=self._holder,
                limits=self._limits,
                claim=self._may_claim(),
                history=self._history,
                taken=self._take,
            )
        if any(outcome.started for outcome in outcomes.values()):
            await reached(Point.CLAIM_AFTER)
        for outcome in outcomes.values():
            for turn, request in outcome.started:
                self._run(turn, request)
        return outcomes

    def _take(self, lane: Lane, thread: str) -> None:
        self._typing.show(Spot(lane.binding_id, lane.platform_chat, thread))

    def _tell(self, lane: Lane, outcome: Outcome) -> None:
        """The signals of a committed admission."""
        if outcome.planned:
            self._bus.publish(subjects.SEND, subjects.Send(chats=[lane.platform_chat]), key=lane.binding_id)
        for chat_id in [*outcome.joined, *(turn.chat_id for turn, _ in outcome.started)]:
            self._bus.publish(subjects.CHAT, subjects.ChatEvent(kind="message"), key=chat_id)
        for chat_id in outcome.left:
            log.info("new_chat_started", binding=lane.binding_id, left=chat_id)
        for reason, count in outcome.decided.items():
            metrics.INBOUND.labels(reason).inc(count)
        if outcome.switched_off:
            self._bus.publish(subjects.BINDING_CHANGED, subjects.BindingChanged(), key=lane.binding_id)
            self._bus.publish(subjects.NOTIFY, subjects.Notify(), key=outcome.switched_off)
