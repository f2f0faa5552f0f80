"""What both buses have in common: the interface, and how a subscriber is fed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

import msgspec
import structlog

from shared.bus.subjects import ANY, Subject
from shared.lifecycle import Tasks

log = structlog.get_logger(__name__)
Payload = TypeVar("Payload", bound=msgspec.Struct)
Handler = Callable[[str, Payload], Awaitable[None]]
"""Called with the key of a signal and its payload."""
BACKLOG = 10_000
"""Signals that wait for one subscriber; what comes on top is dropped and counted."""
encode = msgspec.msgpack.Encoder().encode


class Bus(Protocol):
    """Signals between processes: typed, unordered between subjects, never stored, possibly lost.

    A `Service`. `dropped` counts what this process could not pass on.
    """

    dropped: int

    @property
    def connected(self) -> bool: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    def publish(self, subject: Subject[Payload], payload: Payload, *, key: str = "") -> None:
        """Send a signal and forget it: never waits, and never raises because the bus is down.

        A keyed subject needs its key; a key that cannot be one is a ValueError.
        """
        ...

    def subscribe(
        self, subject: Subject[Payload], handler: Handler[Payload], *, key: str = ANY, queue: str = ""
    ) -> "Subscription":
        """Give signals about `key` to `handler`, one after the other; may be called before `start`.

        Of all subscribers with the same `queue`, in all processes, one gets each signal.
        """
        ...


class Subscription:
    """One subscriber. A handler that fails, or a payload that cannot be read, costs that signal only."""

    def __init__(self, subject: Subject[Any], handler: Handler[Any], *, key: str, queue: str) -> None:
        self.subject = subject
        self.address = subject.address(key)
        self.queue = queue
        self.dropped = 0
        self.on_cancel: Callable[[], None] = lambda: None
        self._handler = handler
        self._waiting: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(BACKLOG)
        self._task: asyncio.Task[None] | None = None
        self._cancelled = False
        self._active = asyncio.Event()

    def begin(self, tasks: Tasks) -> None:
        if self._task is None and not self._cancelled:
            self._task = tasks.run(self.subject.name, self._deliver())

    def put(self, address: str, data: bytes) -> None:
        """Take a signal in; a subscriber that is far behind loses it."""
        try:
            self._waiting.put_nowait((address, data))
        except asyncio.QueueFull:
            self.dropped += 1
            if self.dropped == 1:
                log.warning("bus_subscriber_behind", subject=self.subject.name)

    def activate(self) -> None:
        """The bus passes signals on from now on."""
        self._active.set()

    async def ready(self, *, within: float = 2.0) -> bool:
        """Whether the bus passes signals on to this subscriber; waits for it up to `within` seconds.

        Who shows a state and then follows its signals waits for this before reading the state.
        """
        try:
            async with asyncio.timeout(within):
                await self._active.wait()
        except TimeoutError:
            return False
        return True

    def cancel(self) -> None:
        """End it; a handler that runs is cancelled, unless it is the one that calls this."""
        self._cancelled = True
        self.on_cancel()
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def _deliver(self) -> None:
        while not self._cancelled:
            address, data = await self._waiting.get()
            try:
                payload = self.subject.decoder.decode(data)
            except (msgspec.MsgspecError, RecursionError):
                log.warning("bus_signal_unreadable", subject=self.subject.name)
                continue
            try:
                await self._handler(self.subject.key(address), payload)
            except Exception:
                log.exception("bus_handler_failed", subject=self.subject.name)
