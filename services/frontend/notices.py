"""Forwards notifications to the chat that a binding of their user names (`notify_chat`).

The inbox comes first: a notification is a row before anybody hears of it, and it is planned as a delivery in the
transaction that marks it as forwarded. Any frontend does this; the owner sends it (CLU-16, TG-35 to TG-37).
"""

import asyncio

import structlog

from shared.bus import Bus, Subscription, subjects
from shared.domain.records import Lane, Part
from shared.lifecycle import Tasks
from shared.store import Database, StoreUnavailable, deliveries, notices

log = structlog.get_logger(__name__)

#: seconds between looks for what a lost signal left behind, and how many one look takes
SWEEP_SECONDS, BATCH = 5.0, 100


class NotificationSender:
    """A Service."""

    def __init__(self, database: Database, bus: Bus) -> None:
        self._database = database
        self._bus = bus
        self._tasks = Tasks("notices")
        self._look = asyncio.Event()
        self._subscription: Subscription | None = None

    async def start(self) -> None:
        self._subscription = self._bus.subscribe(subjects.NOTIFY, self._on_signal, queue="notices")
        self._tasks.run("forward", self._forward_for_ever())

    async def stop(self) -> None:
        if self._subscription is not None:
            self._subscription.cancel()
        await self._tasks.stop()

    async def _on_signal(self, key: str, signal: subjects.Notify) -> None:  # noqa: ARG002
        self._look.set()

    async def _forward_for_ever(self) -> None:
        while True:
            self._look.clear()
            try:
                await self._forward()
            except StoreUnavailable as problem:
                log.info("notices_wait_for_the_database", problem=str(problem))
            except Exception:
                log.exception("notices_not_forwarded")
            try:
                await asyncio.wait_for(self._look.wait(), SWEEP_SECONDS)
            except TimeoutError:
                continue

    async def _forward(self) -> None:
        async with self._database.transaction() as connection:
            found = await notices.to_forward(connection, limit=BATCH)
            lanes = {entry.lane for entry in found}
            await deliveries.lock_lanes(connection, lanes)
            await deliveries.plan(connection, [(entry.lane, _part(entry)) for entry in found])
        for lane in lanes:
            self._tell(lane)

    def _tell(self, lane: Lane) -> None:
        self._bus.publish(subjects.SEND, subjects.Send(chats=[lane.platform_chat]), key=lane.binding_id)


def _part(entry: notices.Forward) -> Part:
    """Title and text, without the link: it leads to a page that the chat may not be signed in to."""
    text = f"{entry.title}\n{entry.body}"
    return Part("notification", "send", {"text": text, "markup": "", "plain": text})
