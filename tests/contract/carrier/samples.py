"""Operations that exist for these tests, and an owner that answers them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from shared.carrier import Call, Handlers, Operation
from shared.carrier.streams import Streams, Ticket
from shared.domain.errors import Denied, Failure


class Text(msgspec.Struct):
    text: str = ""


class Count(msgspec.Struct):
    n: int = 0


class Facts(msgspec.Struct):
    role: str
    name: str
    actor: str
    operation: str
    term: int
    turn: int
    epoch: int
    remaining: float


class Agreement(msgspec.Struct):
    size: int
    sha256: str


class Given(msgspec.Struct):
    ticket: Ticket


ECHO = Operation("test.echo", 1, Text, Text)
OTHER_ECHO = Operation("test.echo", 2, Text, Text)
MISTYPED_ECHO = Operation("test.echo", 1, Count, Text)
MISREAD_ECHO = Operation("test.echo", 1, Text, Agreement)
FACTS = Operation("test.facts", 1, Text, Facts, authority="user")
FAIL = Operation("test.fail", 1, Text, Text)
BUG = Operation("test.bug", 1, Text, Text)
WRONG_REPLY = Operation("test.wrong_reply", 1, Text, Text)
READ = Operation("test.read", 1, Text, Text)
WRITE = Operation("test.write", 1, Text, Text, write=True)
SAFE_WRITE = Operation("test.safe_write", 1, Text, Text, write=True, idempotent=True)
COUNT = Operation("test.count", 1, Count, Count, progress=Count)
MISREPORT = Operation("test.misreport", 1, Count, Count, progress=Text)
GROW = Operation("test.grow", 1, Count, Text)
ADMIN = Operation("test.admin", 1, Text, Text, authority="admin")
OWNERS_OWN = Operation("test.owners_own", 1, Text, Text, callers=frozenset({"owner"}))
UNKNOWN = Operation("test.unknown", 1, Text, Text)
SEND = Operation("test.send", 1, Agreement, Given)
FETCH = Operation("test.fetch", 1, Text, Given)


class Owner:
    """Answers the sample operations; `gate` holds READ, WRITE and SAFE_WRITE back until it is set."""

    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self.fails_with: Failure = Denied("no")
        self.gate = asyncio.Event()
        self.entered = asyncio.Queue[str]()
        self.finished: list[str] = []
        self.cancelled = asyncio.Queue[str]()
        self.offered: Any = None
        self.running = 0

    async def authorize(self, operation: Operation[Any, Any], call: Call) -> None:
        if operation.authority == "admin" and call.actor != "root":
            raise Denied("administrators only")

    def handlers(self) -> Handlers:
        made = Handlers()
        made.on(ECHO, self._echo)
        made.on(FACTS, self._facts)
        made.on(FAIL, self._fail)
        made.on(BUG, self._bug)
        made.on(WRONG_REPLY, self._wrong_reply)
        for held in (READ, WRITE, SAFE_WRITE):
            made.on(held, self._held)
        made.on(COUNT, self._count)
        made.on(MISREPORT, self._count)
        made.on(GROW, self._grow)
        made.on(ADMIN, self._echo)
        made.on(OWNERS_OWN, self._echo)
        made.on(SEND, self._send)
        made.on(FETCH, self._fetch)
        return made

    async def _echo(self, request: Text, _call: Call) -> Text:
        return Text(request.text)

    async def _facts(self, _request: Text, call: Call) -> Facts:
        return Facts(
            call.peer.role, call.peer.name, call.actor, call.operation, call.term, call.turn, call.epoch,
            call.remaining,
        )  # fmt: skip

    async def _fail(self, _request: Text, _call: Call) -> Text:
        raise self.fails_with

    async def _bug(self, _request: Text, _call: Call) -> Text:
        raise RuntimeError("password=hunter2 at 10.0.0.7")

    async def _wrong_reply(self, _request: Text, _call: Call) -> Text:
        return Count(1)  # type: ignore[return-value]

    async def _held(self, request: Text, _call: Call) -> Text:
        self.running += 1
        self.entered.put_nowait(request.text)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.put_nowait(request.text)
            raise
        finally:
            self.running -= 1
        self.finished.append(request.text)
        return Text(request.text)

    async def _count(self, request: Count, call: Call) -> Count:
        for n in range(request.n):
            await call.progress(Count(n))
        return Count(request.n)

    async def _grow(self, request: Count, _call: Call) -> Text:
        return Text("x" * request.n)

    async def _send(self, request: Agreement, call: Call) -> Given:
        return Given(self.streams.expect(request.size, request.sha256, call.peer))

    async def _fetch(self, _request: Text, call: Call) -> Given:
        return Given(await self.streams.offer(self.offered, call.peer))


Authorize = Callable[[Operation[Any, Any], Call], Awaitable[None] | None]
