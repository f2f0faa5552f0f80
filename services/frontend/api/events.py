"""Server-sent events of a chat, which resume where they broke off.

What is stored is the truth: each message is an event whose ID is its number, and after every signal, and every
two seconds without one, the stream reads on from its last number. So a lost signal costs time and nothing else,
and a client that reconnects with `Last-Event-ID`, to any frontend, has every message once.

    message     a stored message; the event's ID is its `seq`
    tool_start  {"name"}: a tool begins; live only
    turn_end    {"turn"}: that turn has ended, and its answer has been sent before; also told after a reconnect
"""

import asyncio
import time
from typing import Any

import msgspec
import structlog
from aiohttp import web

from services.frontend.api.call import Call
from services.frontend.api.chat_views import MessageView
from services.frontend.api.errors import not_found
from shared.bus import subjects
from shared.store import StoreUnavailable, chats
from shared.store.chats import Progress

log = structlog.get_logger(__name__)

#: seconds between two looks without a signal, and between two signs of life
LOOK_SECONDS, HEARTBEAT_SECONDS = 2.0, 15.0
#: messages of one look
BATCH = 100
#: tool names that wait to be sent; more of them are not worth remembering
MOST_TOOLS = 100


class OpenStreams:
    """The streams of this frontend; `close` ends them, since nothing else would."""

    def __init__(self) -> None:
        self.closing = False
        self._open: set[asyncio.Event] = set()

    def enter(self, changed: asyncio.Event) -> None:
        self._open.add(changed)

    def leave(self, changed: asyncio.Event) -> None:
        self._open.discard(changed)

    async def close(self, _app: web.Application) -> None:
        self.closing = True
        for changed in self._open:
            changed.set()


STREAMS = web.AppKey("STREAMS", OpenStreams)


async def follow(call: Call) -> web.StreamResponse:
    """Stream a chat of the caller until they leave, it is gone, or the frontend stops."""
    chat_id, streams = call.path("id"), call.request.app[STREAMS]
    position = _position(call)
    stream = _Stream(call, chat_id, position)
    subscription = call.services.bus.subscribe(subjects.CHAT, stream.on_signal, key=chat_id)
    streams.enter(stream.changed)
    try:
        # Signals first, then the state: what happens in between is in one of the two.
        await subscription.ready()
        found = await stream.look()
        if found is None:
            raise not_found("chat")
        await stream.open()
        while found is not None and not streams.closing:
            await stream.send(found)
            if len(found.messages) < BATCH:
                await stream.wait()
            found = await stream.look()
    except (ConnectionError, StoreUnavailable) as problem:
        if not stream.is_open:
            raise
        log.info("event_stream_ended", chat=chat_id, problem=type(problem).__name__)
    finally:
        streams.leave(stream.changed)
        subscription.cancel()
    return stream.response


def _position(call: Call) -> int:
    """Where to go on: the header that a browser sends by itself wins over the address."""
    last = call.request.headers.get("Last-Event-ID", "")
    if last.isascii() and last.isdecimal() and len(last) < 19:
        return int(last)
    return call.number("after", 0)


class _Stream:
    """One open stream: its place in the chat, and what has been signalled since the last look."""

    def __init__(self, call: Call, chat_id: str, position: int) -> None:
        self._call = call
        self._chat_id = chat_id
        self._position = position
        self._ended = 0
        self._tools: list[str] = []
        self._wrote_at = time.monotonic()
        self.changed = asyncio.Event()
        self.response = web.StreamResponse(
            headers={
                "Content-Type": "text/event-stream",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
            }
        )

    @property
    def is_open(self) -> bool:
        return self.response.prepared

    async def open(self) -> None:
        await self.response.prepare(self._call.request)
        await self._write("retry: 1000\n\n")

    async def on_signal(self, key: str, event: subjects.ChatEvent) -> None:  # noqa: ARG002
        if event.kind == "tool_start" and len(self._tools) < MOST_TOOLS:
            self._tools.append(event.name or event.text)
        self.changed.set()

    async def look(self) -> Progress | None:
        self.changed.clear()
        return await chats.progress(
            self._call.services.database,
            self._call.user.id,
            self._chat_id,
            after=self._position,
            limit=BATCH,
        )

    async def send(self, found: Progress) -> None:
        """Everything of one look, in one write; a turn ends after its messages."""
        events = [_event("message", MessageView.of(row), row.seq) for row in found.messages]
        if found.messages:
            self._position = found.messages[-1].seq
        tools, self._tools = self._tools, []
        events += [_event("tool_start", {"name": name}) for name in tools]
        if found.ended > self._ended and len(found.messages) < BATCH:
            self._ended = found.ended
            events.append(_event("turn_end", {"turn": found.ended}))
        if events:
            await self._write("".join(events))

    async def wait(self) -> None:
        """Until a signal comes or it is time to look anyway; keeps the connection from seeming dead."""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self.changed.wait()
        except TimeoutError:
            if time.monotonic() - self._wrote_at >= HEARTBEAT_SECONDS:
                await self._write(": alive\n\n")

    async def _write(self, text: str) -> None:
        await self.response.write(text.encode())
        self._wrote_at = time.monotonic()


def _event(kind: str, data: Any, number: int = 0) -> str:
    head = f"id: {number}\n" if number else ""
    return f"{head}event: {kind}\ndata: {msgspec.json.encode(data).decode()}\n\n"
