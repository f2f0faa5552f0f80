"""Reads one binding: what the platform or the owner answers decides how it goes on.

It waits, backs off, or switches the binding off and tells its owner. Nothing here acts without a trusted term, and
every write carries its number.
"""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from services.frontend.leader.election import Term
from services.frontend.leader.liveness import Link
from shared.bus import Bus, subjects
from shared.carrier import Carrier
from shared.carrier import operations as ops
from shared.config.sections import Poll as PollSettings
from shared.domain.errors import (
    AddonNotRunning,
    Bug,
    CallerFenced,
    Failure,
    OwnerFenced,
    OwnerUnreachable,
    OwnerUnready,
    PlatformLimited,
    PlatformRefused,
)
from shared.i18n import say
from shared.lifecycle.points import Point, reached
from shared.observe import metrics
from shared.sdk.ops import PollResult
from shared.store import Database, StoreUnavailable, admission, cursors, intake
from shared.store.bindings import Pollable
from shared.store.cursors import Cursor

log = structlog.get_logger(__name__)

#: first pause after a failure, in seconds; doubles up to the setting
FIRST_PAUSE = 0.1
#: the longest wait that a platform may ask of the polls, in seconds
LONGEST_HOLD = 900.0
#: an empty answer that comes sooner, in seconds, is followed by a pause: an add-on that does not wait must not spin
EARLY = 0.25
_OWNER_AWAY = (OwnerUnreachable, OwnerUnready, OwnerFenced)


@dataclass(frozen=True, slots=True)
class Means:
    """What every reader of a term works with. `on_poll` hears of each completed poll."""

    database: Database
    bus: Bus
    carrier: Carrier
    settings: PollSettings
    term: Term
    on_poll: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic


class Reader:
    """Polls a binding from a claimed position until it is switched off, changed, or the term ends."""

    def __init__(self, means: Means, binding: Pollable, cursor: Cursor, link: Link) -> None:
        self._means = means
        self._term = means.term
        self._binding = binding
        self._cursor = cursor
        self._link = link
        #: whether the stored position may be another one than ours
        self._stale = False

    async def run(self) -> None:
        try:
            while self._term.trusted:
                if await self._step():
                    return
        except CallerFenced:
            pass
        # Fenced, or trust ran out, as in a process that was stopped for a while. A renewal might bring the term back,
        # but not this reader: the whole term ends, and whoever wins the next one reads everything.
        self._term.lost.set()

    async def _step(self) -> bool:
        """One poll and what follows from it; True when it was the last one."""
        try:
            if self._stale:
                await self._reload()
            await self._read_once()
            self._link.well()
        except CallerFenced:
            raise
        except PlatformRefused as refused:
            if await self._refused(refused):
                return True
            await self._pause()
        except PlatformLimited as limited:
            seconds = min(limited.seconds, LONGEST_HOLD)
            self._link.held(limited.code, self._means.clock(), seconds)
            await asyncio.sleep(seconds)
        except StoreUnavailable as problem:
            log.info("polling_waits_for_the_database", problem=str(problem))
            self._stale = True
            await self._pause()
        except Failure as failure:
            await self._failed(failure)
        except Exception:
            log.exception("poll_failed", binding=self._binding.binding_id)
            self._link.failed(Bug.code, self._means.clock())
            self._stale = True
            await self._pause()
        return False

    async def _read_once(self) -> None:
        """One poll; the first one waits for nothing, so that it is known at once whether the link works."""
        began = self._means.clock()
        wait = 0.0 if self._link.polled_at is None else self._means.settings.wait_seconds
        result = await self._poll(wait)
        now = self._means.clock()
        self._term.owner_answered()
        self._link.completed(now, heard=result.heard)
        self._means.on_poll()
        metrics.POLLS.labels("messages" if result.messages else "empty").inc()
        metrics.SKIPPED.inc(result.skipped)
        if result.messages or result.offset != self._cursor.position:
            if not self._term.trusted:
                raise CallerFenced("the term ended while the poll was out")
            await self._store(result)
        elif now - began < EARLY < wait:
            await asyncio.sleep(EARLY)

    async def _poll(self, wait: float) -> PollResult:
        """Raises Deadline when it did not come back: it is ended then, with its connection, down to the platform."""
        binding = self._binding
        request = ops.Poll(
            self._term.shard, binding.binding_id, binding.revision, self._cursor.position, wait
        )
        deadline = wait + self._means.settings.deaf_seconds + ops.POLL_REPLY_SECONDS
        await reached(Point.POLL_BEFORE)
        result: PollResult = await self._means.carrier.call(
            ops.POLL, request, term=self._term.number, deadline=deadline
        )
        return result

    async def _store(self, result: PollResult) -> None:
        cursor = self._cursor
        if result.messages:
            await reached(Point.INTAKE_BEFORE)
        stored = await intake.store_poll(
            self._means.database,
            cursor,
            term=self._term.number,
            position=result.offset,
            messages=result.messages,
        )
        if not stored.moved:
            await self._reload()
            return
        self._cursor = Cursor(cursor.binding_id, cursor.account_epoch, result.offset)
        if stored.chats:
            await reached(Point.INTAKE_AFTER)
        if stored.duplicates:
            self._link.duplicates += stored.duplicates
            metrics.DUPLICATES.inc(stored.duplicates)
            log.info("duplicates_dropped", binding=cursor.binding_id, count=stored.duplicates)
        for chat in stored.chats:
            self._means.bus.publish(
                subjects.INBOUND_READY, subjects.InboundReady(binding=cursor.binding_id, chat=chat)
            )

    async def _reload(self) -> None:
        """Read from the stored position again.

        Raises CallerFenced when a newer leader claimed it, PlatformRefused (`gone`) when the binding is no more.
        """
        binding_id = self._binding.binding_id
        if not self._term.trusted:
            raise CallerFenced("the term ended")
        self._stale = True
        claims = await cursors.claim(self._means.database, [binding_id], self._term.number)
        if claims.fenced:
            raise CallerFenced("a newer leader claimed the read position")
        if binding_id not in claims.cursors:
            raise PlatformRefused("this connection was deleted", reason="gone")
        self._cursor, self._stale = claims.cursors[binding_id], False

    # -- when it fails ----------------------------------------------------------------------------------

    async def _failed(self, failure: Failure) -> None:
        away = isinstance(failure, _OWNER_AWAY)
        if not away:
            self._term.owner_answered()
        self._link.failed(failure.code, self._means.clock())
        metrics.POLLS.labels(failure.code).inc()
        await self._pause(longest=1.0 if away or isinstance(failure, AddonNotRunning) else None)

    async def _refused(self, refused: PlatformRefused) -> bool:
        """Whether a refusal ends the polls of this binding: it was switched off."""
        link, now = self._link, self._means.clock()
        self._term.owner_answered()
        link.failed(refused.reason, now, heard=True)
        metrics.POLLS.labels(refused.reason).inc()
        if refused.reason == "credentials":
            return await self._switch_off("off_credentials")
        if refused.reason == "conflict":
            link.conflict_since = now if link.conflict_since is None else link.conflict_since
            code = "off_webhook" if refused.detail.get("webhook") else "off_conflict"
            if now - link.conflict_since >= self._means.settings.conflict_seconds:
                return await self._switch_off(code)
            return False
        # Also `gone`: one that was deleted is not wanted any more, and whoever looks at the bindings ends this.
        log.warning("poll_refused", binding=self._binding.binding_id, reason=refused.reason)
        return False

    async def _switch_off(self, code: str) -> bool:
        """Raises CallerFenced, with nothing changed, when a newer leader has claimed the binding."""
        binding, bus = self._binding, self._means.bus
        reason = say(code, platform=binding.kind.capitalize())
        title = say("off_title", name=binding.name)
        if not self._term.trusted:
            raise CallerFenced("the term ended while the poll was out")
        try:
            async with self._means.database.transaction() as connection:
                owner = await admission.switch_off_as_leader(
                    connection, binding.binding_id, term=self._term.number, reason=reason, title=title
                )
        except StoreUnavailable:
            return False
        if owner:
            log.warning("binding_switched_off", binding=binding.binding_id, cause=code)
            bus.publish(subjects.NOTIFY, subjects.Notify(), key=owner)
        bus.publish(subjects.BINDING_CHANGED, subjects.BindingChanged(), key=binding.binding_id)
        return True

    async def _pause(self, *, longest: float | None = None) -> None:
        """Wait after a failure: longer each time, with some chance, so that many bindings do not knock together."""
        link = self._link
        link.failures += 1
        most = longest or self._means.settings.backoff_seconds
        pause = min(most, FIRST_PAUSE * 2 ** min(link.failures - 1, 20))
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads the tries
