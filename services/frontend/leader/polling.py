"""Reads every binding of a shard and stores what came, position and messages together.

One task a binding. What the platform or the owner answers decides how it goes on: wait, back off, or switch the
binding off and tell its owner. Nothing here acts without a trusted term, and every write carries its number.
"""

import asyncio
import contextlib
import random
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from services.frontend.leader.election import Term
from shared.bus import Bus, subjects
from shared.carrier import Carrier
from shared.carrier import operations as ops
from shared.config.sections import Poll as PollSettings
from shared.domain.errors import (
    AddonNotRunning,
    CallerFenced,
    Failure,
    OwnerFenced,
    OwnerUnreachable,
    OwnerUnready,
    PlatformLimited,
    PlatformRefused,
)
from shared.i18n import say
from shared.lifecycle import Tasks
from shared.lifecycle.points import Point, reached
from shared.observe import metrics
from shared.sdk.ops import PollResult
from shared.store import Database, StoreUnavailable, admission, bindings, intake
from shared.store.bindings import Pollable
from shared.store.intake import Cursor

log = structlog.get_logger(__name__)

#: seconds between looks at which bindings there are, besides the signals
RECONCILE_SECONDS = 2.0
#: seconds between two signs of life between leader and owner
TOUCH_SECONDS = 1.0
#: first pause after a failure, in seconds; doubles up to the setting
FIRST_PAUSE = 0.1
#: seconds before an owner that did not answer is told again of this leader
ANNOUNCE_PAUSE = 0.25
_OWNER_AWAY = (OwnerUnreachable, OwnerUnready, OwnerFenced)


@dataclass(slots=True)
class Health:
    """What is known of the polls of one binding in this process; times are monotonic seconds."""

    completed_at: float = 0.0
    failure: str = ""
    conflict_since: float = 0.0
    failures: int = 0
    duplicates: int = 0


@dataclass(slots=True)
class _Reader:
    binding: Pollable
    task: "asyncio.Task[None]"
    health: Health = field(default_factory=Health)


class Polling:
    """The leader's duty. A Service that lives as long as its term."""

    def __init__(
        self,
        *,
        database: Database,
        bus: Bus,
        carrier: Carrier,
        settings: PollSettings,
        term: Term,
        on_poll: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._bus = bus
        self._carrier = carrier
        self._settings = settings
        self._term = term
        self._on_poll = on_poll
        self._clock = clock
        self._tasks = Tasks(f"polling-{term.shard}")
        self._readers: dict[str, _Reader] = {}
        self._look = asyncio.Event()
        self._announced = asyncio.Event()

    def health(self) -> dict[str, Health]:
        return {binding_id: reader.health for binding_id, reader in self._readers.items()}

    async def start(self) -> None:
        self._subscription = self._bus.subscribe(subjects.BINDING_CHANGED, self._on_changed)
        self._tasks.run("touch", self._keep_in_touch())
        self._tasks.run("reconcile", self._reconcile_for_ever())

    async def stop(self) -> None:
        if hasattr(self, "_subscription"):
            self._subscription.cancel()
        await self._tasks.stop()

    # -- which bindings ---------------------------------------------------------------------------------

    async def _on_changed(self, key: str, changed: subjects.BindingChanged) -> None:  # noqa: ARG002
        self._look.set()

    async def _reconcile_for_ever(self) -> None:
        await self._announced.wait()
        while not self._term.lost.is_set():
            self._look.clear()
            await self._look_at_bindings()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), RECONCILE_SECONDS)

    async def _look_at_bindings(self) -> None:
        try:
            self._reconcile(await bindings.pollable(self._database))
        except StoreUnavailable as problem:
            log.info("polling_waits_for_the_database", problem=str(problem))
        except Exception:
            log.exception("bindings_not_looked_at")

    async def _keep_in_touch(self) -> None:
        """Tell the owner of this term, before the first poll and again and again.

        From its answer on it refuses older terms; a new owner learns of it, and a leader whose long polls are silent
        knows that the owner is there.
        """
        while not self._term.lost.is_set():
            announce = ops.Announce(self._term.shard)
            try:
                await self._carrier.call(
                    ops.ANNOUNCE, announce, term=self._term.number, deadline=TOUCH_SECONDS
                )
            except CallerFenced:
                self._term.lost.set()
            except Failure as failure:
                log.info("leader_waits_for_the_owner", code=failure.code)
            else:
                self._term.owner_answered()
                self._announced.set()
            await asyncio.sleep(TOUCH_SECONDS if self._announced.is_set() else ANNOUNCE_PAUSE)

    def _reconcile(self, wanted: list[Pollable]) -> None:
        ours = {b.binding_id: b for b in wanted if self._in_shard(b.binding_id)}
        for binding_id, reader in list(self._readers.items()):
            binding = ours.get(binding_id)
            if binding is None or binding.revision != reader.binding.revision or _broke(reader.task):
                reader.task.cancel()
                del self._readers[binding_id]
        for binding_id, binding in ours.items():
            if binding_id not in self._readers:
                health = Health()
                task = self._tasks.run(f"poll {binding_id}", self._read(binding, health))
                self._readers[binding_id] = _Reader(binding, task, health)

    def _in_shard(self, binding_id: str) -> bool:
        return zlib.crc32(binding_id.encode()) % self._settings.shards == self._term.shard

    # -- one binding ------------------------------------------------------------------------------------

    async def _read(self, binding: Pollable, health: Health) -> None:
        """Poll a binding until it is switched off, changed, or the term ends."""
        cursor = Cursor(binding.binding_id, binding.account_epoch, binding.position)
        stale = False
        while self._term.trusted:
            try:
                if stale:
                    cursor, stale = await self._reload(cursor), False
                cursor = await self._read_once(binding, cursor, health)
                health.failure, health.failures, health.conflict_since = "", 0, 0.0
            except CallerFenced:
                self._term.lost.set()
                return
            except PlatformRefused as refused:
                if await self._refused(binding, refused, health):
                    return
                await self._pause(health)
            except PlatformLimited as limited:
                health.failure = limited.code
                await asyncio.sleep(limited.seconds)
            except StoreUnavailable as problem:
                log.info("polling_waits_for_the_database", problem=str(problem))
                await self._pause(health)
                stale = True
            except Failure as failure:
                if not isinstance(failure, _OWNER_AWAY):
                    self._term.owner_answered()
                health.failure = failure.code
                metrics.POLLS.labels(failure.code).inc()
                await self._pause(
                    health, longest=1.0 if isinstance(failure, (*_OWNER_AWAY, AddonNotRunning)) else None
                )
        # Trust ran out, as in a process that was stopped for a while. A renewal might bring the term back, but not
        # this reader: the whole term ends, and whoever wins the next one reads everything.
        self._term.lost.set()

    async def _read_once(self, binding: Pollable, cursor: Cursor, health: Health) -> Cursor:
        request = ops.Poll(
            self._term.shard,
            binding.binding_id,
            binding.revision,
            cursor.position,
            self._settings.wait_seconds,
        )
        await reached(Point.POLL_BEFORE)
        result: PollResult = await self._carrier.call(
            ops.POLL, request, term=self._term.number, deadline=self._settings.wait_seconds + 20.0
        )
        self._term.owner_answered()
        health.completed_at = self._clock()
        self._on_poll()
        metrics.POLLS.labels("messages" if result.messages else "empty").inc()
        if not result.messages and result.offset == cursor.position:
            return cursor
        if not self._term.trusted:
            raise CallerFenced("the term ended while the poll was out")
        return await self._store(cursor, result, health)

    async def _store(self, cursor: Cursor, result: PollResult, health: Health) -> Cursor:
        if result.messages:
            await reached(Point.INTAKE_BEFORE)
        stored = await intake.store_poll(
            self._database,
            cursor,
            term=self._term.number,
            position=result.offset,
            messages=result.messages,
        )
        if not stored.moved:
            return await self._reload(cursor)
        if stored.chats:
            await reached(Point.INTAKE_AFTER)
        if stored.duplicates:
            health.duplicates += stored.duplicates
            metrics.DUPLICATES.inc(stored.duplicates)
            log.info("duplicates_dropped", binding=cursor.binding_id, count=stored.duplicates)
        for chat in stored.chats:
            self._bus.publish(
                subjects.INBOUND_READY, subjects.InboundReady(binding=cursor.binding_id, chat=chat)
            )
        return Cursor(cursor.binding_id, cursor.account_epoch, result.offset)

    async def _reload(self, cursor: Cursor) -> Cursor:
        """Read the stored position again.

        Raises CallerFenced when a newer leader moved it, PlatformRefused (`gone`) when the binding is no more.
        """
        while not self._term.lost.is_set():
            try:
                row = await intake.read_cursor(self._database, cursor.binding_id)
            except StoreUnavailable:
                await asyncio.sleep(FIRST_PAUSE)
                continue
            if row is None:
                raise PlatformRefused("this connection was deleted", reason="gone")
            if row.term > self._term.number:
                raise CallerFenced("a newer leader moved the read position")
            return Cursor(cursor.binding_id, row.account_epoch, row.position)
        raise CallerFenced("the term ended")

    async def _refused(self, binding: Pollable, refused: PlatformRefused, health: Health) -> bool:
        """Whether a refusal ends the polls of this binding."""
        self._term.owner_answered()
        health.failure = refused.reason
        metrics.POLLS.labels(refused.reason).inc()
        if refused.reason == "credentials":
            return await self._switch_off(binding, "off_credentials")
        if refused.reason == "conflict":
            now = self._clock()
            health.conflict_since = health.conflict_since or now
            code = "off_webhook" if refused.detail.get("webhook") else "off_conflict"
            if now - health.conflict_since >= self._settings.conflict_seconds:
                return await self._switch_off(binding, code)
            return False
        log.warning("poll_refused", binding=binding.binding_id, reason=refused.reason)
        return refused.reason == "gone"

    async def _switch_off(self, binding: Pollable, code: str) -> bool:
        reason = say(code, platform=binding.kind.capitalize())
        title = say("off_title", name=binding.name)
        try:
            owner = await admission.switch_off(self._database, binding.binding_id, reason=reason, title=title)
        except StoreUnavailable:
            return False
        log.warning("binding_switched_off", binding=binding.binding_id, cause=code)
        self._bus.publish(subjects.BINDING_CHANGED, subjects.BindingChanged(), key=binding.binding_id)
        if owner:
            self._bus.publish(subjects.NOTIFY, subjects.Notify(), key=owner)
        return True

    async def _pause(self, health: Health, *, longest: float | None = None) -> None:
        """Wait after a failure: longer each time, with some chance, so that many bindings do not knock together."""
        health.failures += 1
        most = longest or self._settings.backoff_seconds
        pause = min(most, FIRST_PAUSE * 2 ** min(health.failures - 1, 20))
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads the tries


def _broke(task: "asyncio.Task[None]") -> bool:
    """Whether a reader ended by a fault of ours; it is started again, where one that ended on purpose is not."""
    return task.done() and not task.cancelled() and task.exception() is not None
