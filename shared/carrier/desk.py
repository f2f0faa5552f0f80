"""Where calls are received, judged and executed; the same for the wire and for the direct form.

    Request ──> Reception.receive ──> known? right version? right role? room? readable? ──no──> Failed
                                          │ yes
                                          v
                        Execution (a task and a deadline): authorize ──> handler ──> Reply | Failed

A lost connection does not end an execution: only its own end, its deadline, a Cancel frame or the stop of the
desk does. What an execution says to a connection that has gone is dropped.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec
import structlog

from shared.carrier import frames
from shared.carrier.call import Call, Peer
from shared.carrier.operation import Operation
from shared.domain.errors import (
    Bug,
    Deadline,
    Denied,
    Failure,
    OutcomeUnknown,
    OwnerUnready,
    TooLarge,
)
from shared.lifecycle import Tasks

log = structlog.get_logger(__name__)
Req = TypeVar("Req", bound=msgspec.Struct)
Rep = TypeVar("Rep", bound=msgspec.Struct)

AnyOperation = Operation[Any, Any]
Handler = Callable[[Req, Call], Awaitable[Rep]]
Authorize = Callable[[AnyOperation, Call], Awaitable[None] | None]
"""Returns (or finishes) when the call may go on; raises a `Failure`, mostly `Denied`, when it may not."""


class Handlers:
    """Which function answers which operation."""

    def __init__(self) -> None:
        self._bound: dict[str, tuple[AnyOperation, Handler[Any, Any]]] = {}

    def on(self, operation: Operation[Req, Rep], handler: Handler[Req, Rep]) -> None:
        """Answer `operation` with `handler`; a second handler for one name is a ValueError."""
        if operation.name in self._bound:
            raise ValueError(f"{operation.name} has a handler already")
        self._bound[operation.name] = (operation, handler)

    def table(self) -> Mapping[str, tuple[AnyOperation, Handler[Any, Any]]]:
        return self._bound


class Outlet(Protocol):
    """The way back to the caller."""

    def send(self, frame: Any, size: int = 0) -> int: ...

    async def writable(self) -> None: ...


class Guest:
    """A peer and the number of its calls that are running."""

    __slots__ = ("__weakref__", "in_flight", "peer")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.in_flight = 0


class Desk:
    """Executes calls for all peers, with a bounded number in flight for each of them.

    What exceeds `max_in_flight_per_peer` is refused with `OwnerUnready`: nothing was executed, try again.
    """

    def __init__(
        self,
        handlers: Handlers,
        *,
        authorize: Authorize,
        tasks: Tasks,
        max_in_flight_per_peer: int = 2048,
        frame_limit: int = frames.FRAME_LIMIT,
    ) -> None:
        self.table = handlers.table()
        self.authorize = authorize
        self.tasks = tasks
        self.max_in_flight = max_in_flight_per_peer
        self.frame_limit = frame_limit
        self.closing = False
        self._guests: WeakValueDictionary[Peer, Guest] = WeakValueDictionary()

    def guest(self, peer: Peer) -> "Guest":
        """The account of a peer, one for all its connections; it lives as long as somebody holds it."""
        return self._guests.setdefault(peer, Guest(peer))

    def encode(self, payload: msgspec.Struct, what: str) -> bytes:
        """A payload as bytes; TooLarge names the operation and the limit."""
        data = frames.encode(payload)
        if len(data) > self.frame_limit:
            raise TooLarge(f"{what} has {len(data)} bytes; a call carries at most {self.frame_limit}")
        return data


class Reception:
    """The owner's half of one connection: which calls of this peer are running."""

    def __init__(self, desk: Desk, peer: Peer, outlet: Outlet) -> None:
        self.desk = desk
        self.guest = desk.guest(peer)
        self.outlet = outlet
        self.running: dict[int, Execution] = {}

    def receive(self, frame: frames.Asking) -> None:
        """Start or cancel a call; refusals are answered at once."""
        if isinstance(frame, frames.Cancel):
            execution = self.running.get(frame.id)
            if execution is not None:
                execution.abandon()
            return
        try:
            operation, handler, request = self._accepted(frame)
        except Failure as refusal:
            self.outlet.send(frames.failed(frame.id, refusal))
            return
        Execution(self, frame, operation).start(handler, request)

    def _accepted(self, frame: frames.Request) -> tuple[AnyOperation, Handler[Any, Any], Any]:
        desk = self.desk
        bound = desk.table.get(frame.name)
        if bound is None:
            raise OwnerUnready(f"the owner does not know the operation {frame.name[:80]!r}")
        operation = bound[0]
        if frame.version != operation.version:
            raise OwnerUnready(
                f"the owner speaks version {operation.version} of {operation.name}, not {frame.version}"
            )
        peer = self.guest.peer
        if peer.role not in operation.callers:
            raise Denied(f"a {peer.role} may not call {operation.name}")
        if desk.closing:
            raise OwnerUnready("the owner is stopping")
        if self.guest.in_flight >= desk.max_in_flight or frame.id in self.running:
            raise OwnerUnready(f"more than {desk.max_in_flight} calls of {peer.name} are in flight")
        if len(frame.payload) > desk.frame_limit:
            raise TooLarge(f"the request of {operation.name} is over {desk.frame_limit} bytes")
        try:
            return *bound, operation.request_decoder.decode(frame.payload)
        except frames.UNREADABLE as problem:
            raise Bug(f"the request of {operation.name} cannot be read: {problem}") from problem


class Execution:
    """One running call."""

    __slots__ = ("_abandoned", "_call", "_number", "_operation", "_reception", "_task", "_timer", "_verdict")

    def __init__(self, reception: Reception, frame: frames.Request, operation: AnyOperation) -> None:
        self._reception = reception
        self._operation = operation
        self._number = frame.id
        self._call = Call(
            reception.guest.peer,
            time.monotonic() + frame.seconds,
            frame.actor,
            frame.operation,
            frame.term,
            frame.turn,
            frame.epoch,
            self._report,
        )
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(frame.seconds, self._expired)
        self._verdict: Failure | None = None
        self._abandoned = False

    def start(self, handler: Handler[Any, Any], request: Any) -> None:
        reception = self._reception
        reception.guest.in_flight += 1
        reception.running[self._number] = self
        self._task = reception.desk.tasks.run(self._operation.name, self._run(handler, request))
        self._task.add_done_callback(self._ended)

    def abandon(self) -> None:
        """Cancel the handler for a caller that has stopped listening."""
        self._abandoned = True
        self._cancel()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, handler: Handler[Any, Any], request: Any) -> None:
        outlet = self._reception.outlet
        try:
            payload = await self._answer(handler, request)
        except Failure as failure:
            outlet.send(frames.failed(self._number, failure))
        except Exception:
            log.exception("carrier_handler_failed", operation=self._operation.name)
            bug = Bug(f"the owner failed inside {self._operation.name}; its log says why")
            outlet.send(frames.failed(self._number, bug))
        else:
            outlet.send(frames.Reply(self._number, msgspec.Raw(payload)), len(payload))

    async def _answer(self, handler: Handler[Any, Any], request: Any) -> bytes:
        operation, desk = self._operation, self._reception.desk
        judged = desk.authorize(operation, self._call)
        if judged is not None:
            await judged
        reply = await handler(request, self._call)
        if not isinstance(reply, operation.reply):
            raise TypeError(f"the handler of {operation.name} returned a {type(reply).__name__}")
        return desk.encode(reply, f"the reply of {operation.name}")

    async def _report(self, payload: msgspec.Struct) -> None:
        operation, outlet = self._operation, self._reception.outlet
        if operation.progress is None or not isinstance(payload, operation.progress):
            raise TypeError(f"{operation.name} reports no {type(payload).__name__}")
        await outlet.writable()
        data = self._reception.desk.encode(payload, f"a report of {operation.name}")
        outlet.send(frames.Progress(self._number, msgspec.Raw(data)), len(data))

    def _expired(self) -> None:
        self._verdict = self._broken_off("did not end before its deadline", Deadline)
        self._cancel()

    def _broken_off(self, how: str, kind: type[Failure]) -> Failure:
        text = f"{self._operation.name} {how}"
        if self._operation.may_be_lost:
            return OutcomeUnknown(text, operation=self._call.operation)
        return kind(text)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        """Runs however the task ended, also when it was cancelled before its first step."""
        self._timer.cancel()
        reception = self._reception
        reception.running.pop(self._number, None)
        reception.guest.in_flight -= 1
        if task.cancelled() and not self._abandoned:
            kind = OwnerUnready if reception.desk.closing else Bug
            verdict = self._verdict or self._broken_off("was broken off by the owner", kind)
            reception.outlet.send(frames.failed(self._number, verdict))
