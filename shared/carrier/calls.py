"""The caller's half of one connection: which calls wait for which answer."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

import msgspec
import structlog

from shared.carrier import frames
from shared.carrier.operation import LONGEST_DEADLINE, Operation
from shared.carrier.streams import Ticket
from shared.domain.errors import Bug, Deadline, Failure, OutcomeUnknown, OwnerUnreachable, TooLarge

log = structlog.get_logger(__name__)
Req = TypeVar("Req", bound=msgspec.Struct)
Rep = TypeVar("Rep", bound=msgspec.Struct)
OnProgress = Callable[[Any], None]


class Options(TypedDict, total=False):
    """What a call may say beside its request.

    `deadline`: seconds from now, instead of the operation's own. `actor`: the acting user. `operation`: the ID of
    a write. `term`: a leader's term. (`turn`, `epoch`): the turn on whose behalf it is made. `on_progress`: called
    with each report of the running call.
    """

    deadline: float | None
    actor: str
    operation: str
    term: int
    turn: int
    epoch: int
    on_progress: OnProgress | None


class Carrier(Protocol):
    """How a frontend asks the owner; over the wire or in the same process."""

    async def call(self, op: Operation[Req, Rep], request: Req, /, **options: Unpack[Options]) -> Rep:
        """The owner's reply, or one error of the closed set (`shared.domain.errors`).

        Cancelling the caller cancels the handler. Nothing is ever sent twice.
        """
        ...

    async def upload(self, ticket: Ticket, chunks: AsyncIterable[bytes]) -> None:
        """Send the bytes that a ticket was given for; raises Denied, TooLarge, Bug or OwnerUnreachable."""
        ...

    def download(self, ticket: Ticket) -> AsyncIterator[bytes]:
        """Fetch the bytes that a ticket was given for; the last step checks size and hash of the whole."""
        ...


class Asked(msgspec.Struct, frozen=True):
    """One call, checked and encoded, before it is sent."""

    op: Operation[Any, Any]
    payload: bytes
    seconds: float
    options: Options

    def lost(self) -> Failure:
        """What a caller hears whose frame left and whose connection broke."""
        return self._unanswered(f"the owner went away before {self.op.name} was answered", OwnerUnreachable)

    def late(self) -> Failure:
        """What a caller hears whose deadline passed after the frame was queued."""
        return self._unanswered(f"{self.op.name} was not answered within {self.seconds:g} s", Deadline)

    def _unanswered(self, text: str, kind: type[Failure]) -> Failure:
        if self.op.may_be_lost:
            return OutcomeUnknown(text, operation=self.options.get("operation", ""))
        return kind(text)


def asked(
    op: Operation[Any, Any], request: msgspec.Struct, options: Options, frame_limit: int = frames.FRAME_LIMIT
) -> Asked:
    """A call that may be sent; raises TooLarge, and Deadline when there is no time left for it."""
    wanted = options.get("deadline")
    seconds = op.deadline if wanted is None else min(wanted, LONGEST_DEADLINE)
    if not seconds > 0:
        raise Deadline(f"no time was left for {op.name}")
    payload = frames.encode(request)
    if len(payload) > frame_limit:
        raise TooLarge(f"the request of {op.name} has {len(payload)} bytes; the limit is {frame_limit}")
    return Asked(op, payload, seconds, options)


@dataclass(slots=True)
class _Waiting:
    asked: Asked
    answer: "asyncio.Future[msgspec.Raw | Failure]"
    place: int
    """The place of the request in the outgoing queue, to know later whether it left."""


class Calls:
    """Sends requests through `send` and gives every answer to the call that waits for it.

    `send(frame, size)` returns the place of the frame in the order of sending.
    """

    def __init__(self, send: Callable[[frames.Asking, int], int]) -> None:
        self._send = send
        self._waiting: dict[int, _Waiting] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._waiting)

    async def call(self, what: Asked) -> Any:
        loop = asyncio.get_running_loop()
        self._last = number = self._last + 1
        waiting = _Waiting(what, loop.create_future(), 0)
        self._waiting[number] = waiting
        timer = loop.call_later(what.seconds, _expire, waiting)
        waiting.place = self._send(_request(number, what), len(what.payload))
        try:
            answer = await waiting.answer
        except asyncio.CancelledError:
            self._send(frames.Cancel(number), 0)
            raise
        finally:
            timer.cancel()
            del self._waiting[number]
        if isinstance(answer, Failure):
            raise answer
        try:
            return what.op.reply_decoder.decode(answer)
        except frames.UNREADABLE as problem:
            raise Bug(f"the reply of {what.op.name} cannot be read: {problem}") from problem

    def receive(self, frame: frames.Answer) -> None:
        """Hand over an answer; one that nobody waits for any more is dropped."""
        waiting = self._waiting.get(frame.id)
        if waiting is None:
            return
        if isinstance(frame, frames.Reply):
            _settle(waiting, frame.payload)
        elif isinstance(frame, frames.Failed):
            _settle(waiting, frames.raised(frame))
        else:
            _report(waiting.asked, frame.payload)

    def lost(self, left: int) -> None:
        """The connection is gone; `left` frames were handed to it. What never left was never executed."""
        for waiting in self._waiting.values():
            what = waiting.asked
            unsent = OwnerUnreachable(f"the owner went away before {what.op.name} was sent")
            _settle(waiting, what.lost() if waiting.place <= left else unsent)


def _request(number: int, what: Asked) -> frames.Request:
    said = what.options
    return frames.Request(
        number,
        what.op.name,
        what.op.version,
        what.seconds,
        said.get("actor", ""),
        said.get("operation", ""),
        said.get("term", 0),
        said.get("turn", 0),
        said.get("epoch", 0),
        msgspec.Raw(what.payload),
    )


def _expire(waiting: _Waiting) -> None:
    _settle(waiting, waiting.asked.late())


def _settle(waiting: _Waiting, answer: msgspec.Raw | Failure) -> None:
    """The first answer counts; a later one finds a caller that has its answer."""
    if not waiting.answer.done():
        waiting.answer.set_result(answer)


def _report(what: Asked, payload: msgspec.Raw) -> None:
    """Tell the caller of progress; a listener that fails does not fail its call."""
    decoder = what.op.progress_decoder
    listener = what.options.get("on_progress")
    if listener is None or decoder is None:
        return
    try:
        listener(decoder.decode(payload))
    except Exception:
        log.exception("carrier_progress_listener_failed", operation=what.op.name)
