"""The carrier inside one process: the same calls, checks and errors, without a wire."""

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, TypeVar, Unpack

import msgspec

from shared.carrier import frames
from shared.carrier.call import Peer
from shared.carrier.calls import Calls, Options, asked
from shared.carrier.desk import Authorize, Desk, Handlers, Reception
from shared.carrier.operation import Operation
from shared.carrier.streams import Check, Streams, Ticket
from shared.domain.errors import OwnerUnreachable
from shared.lifecycle import Tasks

Req = TypeVar("Req", bound=msgspec.Struct)
Rep = TypeVar("Rep", bound=msgspec.Struct)


SAME_PROCESS = Peer("frontend", "frontend")


class DirectCarrier:
    """Joins the two halves of a connection back to back.

    Payloads are still encoded and decoded, so that types, sizes and errors are those of the wire, and no object
    is shared between caller and handler.
    """

    def __init__(
        self,
        handlers: Handlers,
        *,
        authorize: Authorize,
        streams: Streams | None = None,
        peer: Peer = SAME_PROCESS,
        max_in_flight_per_peer: int = 2048,
        frame_limit: int = frames.FRAME_LIMIT,
        stop_grace: float = 5.0,
    ) -> None:
        self._tasks = Tasks("carrier")
        self._desk = Desk(
            handlers,
            authorize=authorize,
            tasks=self._tasks,
            max_in_flight_per_peer=max_in_flight_per_peer,
            frame_limit=frame_limit,
        )
        self._streams = streams
        self._peer = peer
        self._frame_limit = frame_limit
        self._stop_grace = stop_grace
        self._calls = Calls(self._ask)
        self._reception = Reception(self._desk, peer, _Back(self._calls))
        self._started = False

    async def start(self) -> None:
        self._started = True

    async def stop(self) -> None:
        """Refuse new calls, give the running ones `stop_grace` seconds, break off the rest."""
        self._desk.closing = True
        await self._tasks.stop(grace=self._stop_grace)
        if self._streams is not None:
            self._streams.close()

    async def call(self, op: Operation[Req, Rep], request: Req, /, **options: Unpack[Options]) -> Rep:
        what = asked(op, request, options, self._frame_limit)
        if not self._started:
            raise OwnerUnreachable("the owner is not running yet")
        reply: Rep = await self._calls.call(what)
        return reply

    async def upload(self, ticket: Ticket, chunks: AsyncIterable[bytes]) -> None:
        await self._open_streams().receive(ticket.handle, self._peer, chunks)

    async def download(self, ticket: Ticket) -> AsyncIterator[bytes]:
        _, chunks = self._open_streams().send(ticket.handle, self._peer)
        check = Check(ticket)
        async for chunk in chunks:
            check.take(chunk)
            yield chunk
        check.finish()

    def _open_streams(self) -> Streams:
        if self._streams is None or not self._started or self._desk.closing:
            raise OwnerUnreachable("the owner moves no files now")
        return self._streams

    def _ask(self, frame: frames.Asking, _size: int) -> int:
        self._reception.receive(frame)
        return 0


class _Back:
    """The way back to the caller, without a queue."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def send(self, frame: Any, size: int = 0) -> int:  # noqa: ARG002 - sizes matter on a wire only
        self._calls.receive(frame)
        return 0

    async def writable(self) -> None:
        return
