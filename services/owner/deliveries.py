"""Executes planned parts, in order for a lane, and records what became of each.

    planned ──claim──> sending ──> sent
       ^                  ├─────> failed    the platform refused it for good
       ├── wait ──────────┤       unknown   it may be visible: never sent again by itself
       └── as plain text, or as a new message

The row is marked `sending` before the call and carries this owner's term, so that the next owner can tell what this
one was doing. An edit may be repeated without harm; a send whose reply is lost may not (cases TG-05, SL-07).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from services.owner.addons import Addons, Running
from services.owner.credentials import Access, Credentials
from services.owner.messages import MessageLocks
from services.owner.outcomes import outcome_of, without_facts
from services.owner.pacing import Pacer
from shared.bus import Bus, subjects
from shared.config.sections import Delivery as DeliverySettings
from shared.domain.errors import Bug, Failure, PlatformLimited, PlatformRefused, PlatformUnavailable
from shared.domain.records import Delivery, Lane
from shared.i18n import say
from shared.lifecycle import Tasks
from shared.lifecycle.batching import Batcher
from shared.lifecycle.points import Point, reached
from shared.observe import metrics
from shared.sdk.ops import DeleteArgs, EditArgs, SendArgs, Sent
from shared.store import Database, StoreUnavailable
from shared.store import deliveries as store
from shared.store.deliveries import Alert, Result, Settled

log = structlog.get_logger(__name__)

#: lanes that one sweep wakes
SWEEP = 500
#: seconds between tries to record an outcome while the database is away
RECORD_PAUSE = 0.25


class DeliveryQueue:
    """One worker for each lane that has something to send.

    `term` is this owner's term; `trusted` says whether acting under it is allowed now.
    """

    def __init__(
        self,
        *,
        database: Database,
        bus: Bus,
        addons: Addons,
        credentials: Credentials,
        pacer: Pacer,
        locks: MessageLocks,
        settings: DeliverySettings,
        term: Callable[[], int],
        trusted: Callable[[], bool],
    ) -> None:
        self._database = database
        self._bus = bus
        self._addons = addons
        self._credentials = credentials
        self._pacer = pacer
        self._locks = locks
        self._settings = settings
        self._term = term
        self._trusted = trusted
        self._working: dict[Lane, bool] = {}
        self._unheard: set[Lane] = set()
        self._stopping = False

    async def start(self) -> None:
        self._stopping = False
        self._tasks, self._lanes, self._batches = Tasks("deliveries"), Tasks("lanes"), Tasks("batches")
        self._claims: Batcher[Lane, Delivery | None] = Batcher("claim", self._batches, self._claim)
        self._results: Batcher[Result, bool] = Batcher("record", self._batches, self._record)
        self._unheard.clear()
        settled = await store.settle_orphans(self._database, self._term(), _alert())
        self._tell(settled)
        if settled.count:
            log.warning("deliveries_of_an_earlier_owner_settled", count=settled.count)
        self._subscription = self._bus.subscribe(subjects.SEND, self._on_signal)
        self._tasks.run("sweep", self._sweep())

    async def stop(self) -> None:
        """Let calls that are out come back, so that their outcomes are known, then stop."""
        self._subscription.cancel()
        await self._tasks.stop()
        self._stopping = True
        await self._lanes.stop(grace=self._settings.call_seconds / 4)
        await self._batches.stop()

    def wake(self, lane: Lane) -> None:
        """Something may be there to send. Cheap, and safe to call too often."""
        if lane in self._working:
            self._working[lane] = True
            return
        self._working[lane] = False
        try:
            self._lanes.run("lane", self._work(lane))
        except RuntimeError:  # stopping: the rows wait for the next owner
            self._working.pop(lane, None)

    async def _on_signal(self, key: str, signal: subjects.Send) -> None:
        for chat in signal.chats:
            self.wake(Lane(key, chat))

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._settings.sweep_seconds)
            if not self._trusted():
                continue
            try:
                for lane in [*self._unheard, *await store.waiting_lanes(self._database, SWEEP)]:
                    self.wake(lane)
            except StoreUnavailable as problem:
                log.info("delivery_sweep_skipped", problem=str(problem))
            except Exception:
                log.exception("delivery_sweep_failed")

    async def _work(self, lane: Lane) -> None:
        """Send the open parts of a lane one after another, until nothing may go now."""
        try:
            while self._trusted() and not self._stopping:
                held = self._pacer.held(lane.binding_id, lane.platform_chat)
                if held:
                    self._wake_after(lane, held)
                    return
                delivery = await self._claims.add(lane)
                if delivery is None:
                    if not self._working.get(lane):
                        return
                    self._working[lane] = False
                    continue
                await reached(Point.DELIVERY_BEFORE)
                result = await self._execute(delivery)
                await reached(Point.DELIVERY_AFTER)
                metrics.DELIVERIES.labels(delivery.purpose, result.state).inc()
                await self._results.add(result)
                await reached(Point.DELIVERY_RECORDED)
                if result.wait_seconds:
                    self._wake_after(lane, result.wait_seconds)
                    return
        except StoreUnavailable as problem:
            log.info("lane_waits_for_the_database", problem=str(problem))
        finally:
            self._working.pop(lane, None)

    def _wake_after(self, lane: Lane, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.wake, lane)

    async def _claim(self, lanes: Sequence[Lane]) -> Sequence[Delivery | None]:
        wanted = list(set(lanes))
        try:
            claimed = await store.claim_heads(self._database, wanted, self._term(), unheard=self._unheard)
        except Exception:
            # It may have been committed, and then nobody else may claim these parts.
            self._unheard.update(wanted)
            raise
        self._unheard.difference_update(wanted)
        by_lane = {Lane(d.binding_id, d.platform_chat): d for d in claimed}
        return [by_lane.get(lane) for lane in lanes]

    async def _record(self, results: Sequence[Result]) -> Sequence[bool]:
        """Write outcomes; one that cannot be written spoils nobody else's, and does not hold up its lane."""
        try:
            await self._write(results)
        except Exception:
            log.exception("outcomes_broke", count=len(results))
            for result in results:
                await self._record_alone(result)
        return [True] * len(results)

    async def _record_alone(self, result: Result) -> None:
        try:
            await self._write([result])
        except Exception:
            log.exception("outcome_not_recorded", delivery=result.delivery_id)
            await self._write([without_facts(result)])

    async def _write(self, results: Sequence[Result]) -> None:
        """What happened at the platform is kept until the database takes it."""
        while True:
            try:
                settled = await store.record(self._database, results, self._term(), _alert())
                break
            except StoreUnavailable:
                await asyncio.sleep(RECORD_PAUSE)
        self._tell(settled)
        if settled.count != len(results):
            log.warning("outcomes_fenced", count=len(results) - settled.count)

    def _tell(self, settled: Settled) -> None:
        for user in settled.alerted:
            self._bus.publish(subjects.NOTIFY, subjects.Notify(), key=user)

    # -- one part ---------------------------------------------------------------------------------------

    async def _execute(self, delivery: Delivery) -> Result:
        try:
            wait = self._wait_for_place(delivery)
            if wait:
                return Result(delivery.id, "planned", wait_seconds=wait)
            platform_id = await self._send(delivery)
            return Result(delivery.id, "sent", platform_id)
        except Failure as failure:
            self._note(delivery, failure)
            return outcome_of(delivery, failure, self._settings)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("delivery_broke", delivery=delivery.id)
            return outcome_of(delivery, Bug("the server failed while this was being sent"), self._settings)

    def _wait_for_place(self, delivery: Delivery) -> float:
        """Seconds until the budget of the binding has a place; an answer never waits for it."""
        kind = self._addons.serving(delivery.kind, delivery.addon).kind(delivery.kind)
        assert kind is not None, "serving() answers with an add-on of that kind"
        budget = (delivery.binding_id, kind.calls_per_second, kind.burst)
        if delivery.purpose == "answer":
            self._pacer.spend(*budget)
            return 0.0
        return self._pacer.wait_for_place(*budget)

    async def _send(self, delivery: Delivery) -> str:
        access = await self._access(delivery)
        addon = self._addons.serving(access.kind, access.addon)
        if delivery.action == "send":
            return await self._send_new(delivery, access, addon)
        key = (delivery.binding_id, delivery.platform_chat, delivery.target_message)
        async with self._locks.hold(key) as hold:
            await self._change(delivery, access, addon)
            if hold.doubtful:
                # A preview of unknown outcome may have reached the platform after this edit (step 6).
                hold.doubtful = False
                await self._change(delivery, access, addon)
        return ""

    async def _access(self, delivery: Delivery) -> Access:
        try:
            return await self._credentials.of(delivery.binding_id, delivery.binding_revision)
        except StoreUnavailable:
            raise PlatformUnavailable("the database is away; nothing was sent") from None

    async def _send_new(self, delivery: Delivery, access: Access, addon: Running) -> str:
        body = delivery.body
        args = SendArgs(
            delivery.platform_chat,
            body["text"],
            thread=delivery.thread,
            reply_to=delivery.reply_to,
            markup=body["markup"],
            operation=str(delivery.id),
        )
        sent: Sent = await addon.client.op("send", args, **self._call(access))
        return sent.id

    async def _change(self, delivery: Delivery, access: Access, addon: Running) -> None:
        chat, message, thread = delivery.platform_chat, delivery.target_message, delivery.thread
        if delivery.action == "delete":
            await addon.client.op("delete", DeleteArgs(chat, message, thread), **self._call(access))
            return
        body = delivery.body
        edit = EditArgs(chat, message, body["text"], thread=thread, markup=body["markup"])
        await addon.client.op("edit", edit, **self._call(access))

    def _call(self, access: Access) -> dict[str, Any]:
        return {
            "credential": access.token.reveal(),
            "binding": access.binding_id,
            "options": access.options,
            "deadline": self._settings.call_seconds,
        }

    def _note(self, delivery: Delivery, failure: Failure) -> None:
        """What a failure means beyond this part: waits of the chat, and a token that is no good."""
        log.info("delivery_failed", delivery=delivery.id, code=failure.code, attempt=delivery.attempts)
        if isinstance(failure, PlatformLimited):
            self._pacer.hold(delivery.binding_id, delivery.platform_chat, failure.seconds)
        if isinstance(failure, PlatformRefused) and failure.reason == "credentials":
            # The leader's poll is refused as well and switches the binding off, with a notice to its owner.
            self._credentials.forget(delivery.binding_id)


def _alert() -> Alert:
    """What the owner of a binding reads; the store knows the names."""
    return Alert(say("undelivered_title", name="{name}"), say("undelivered", binding="{binding}"))
