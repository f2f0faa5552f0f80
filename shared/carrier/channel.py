"""Frames over one WebSocket: batched on the way out, decoded by the batch on the way in."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

import aiohttp
import msgspec
import structlog
from aiohttp import web

from shared.carrier import frames

log = structlog.get_logger(__name__)
In = TypeVar("In")
Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse

HIGH_WATER = 4 * 1024 * 1024
"""Bytes (and frames, times 1024) waiting to leave, above which `writable` waits."""
_FRAME_COST = 128
"""Bytes that a frame without a payload is counted as."""


class Garbled(Exception):
    """The other end sent what is not a batch of frames; the connection cannot go on."""


class Channel(Generic[In]):
    """The frames of one connection.

    `send` never waits: frames gather until the writer's next turn and leave as one message. `writable` is for
    those who produce without being asked. `left` counts the frames that were handed to the transport.
    """

    def __init__(self, socket: Socket, decoder: msgspec.msgpack.Decoder[list[In]]) -> None:
        self._socket = socket
        self._decoder = decoder
        self._queue: deque[tuple[frames.Frame, int]] = deque()
        self._queued = 0
        self._waiting_bytes = 0
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False
        self.left = 0

    def send(self, frame: frames.Frame, size: int = 0) -> int:
        """Queue a frame with a payload of `size` bytes; returns its place. On a closed channel it is dropped."""
        self._queued += 1
        if not self._closed:
            self._queue.append((frame, size))
            self._waiting_bytes += size + _FRAME_COST
            if self._waiting_bytes > HIGH_WATER:
                self._room.clear()
            self._wake.set()
        return self._queued

    @property
    def has_room(self) -> bool:
        return self._room.is_set()

    async def writable(self) -> None:
        """Return when there is room for more; a closed channel always has room."""
        await self._room.wait()

    async def write(self) -> None:
        """Send what is queued, until the connection breaks or the task is cancelled."""
        try:
            while not self._closed:
                await self._wake.wait()
                self._wake.clear()
                while self._queue:
                    await self._socket.send_bytes(self._batch())
        except ConnectionError:
            pass  # The reading side hears of it too, and tells.
        except Exception:
            log.exception("carrier_writer_failed")
            await self._socket.close()
        finally:
            self.close()

    def _batch(self) -> bytes:
        batch: list[frames.Frame] = []
        size = 0
        while self._queue and size < frames.BATCH_SIZE:
            frame, payload = self._queue.popleft()
            batch.append(frame)
            size += payload + _FRAME_COST
        self.left += len(batch)
        self._waiting_bytes -= size
        if self._waiting_bytes <= HIGH_WATER:
            self._room.set()
        return frames.encode(batch)

    async def batches(self) -> AsyncIterator[list[In]]:
        """What arrives, until the connection ends; raises Garbled."""
        async for message in self._socket:
            if message.type is aiohttp.WSMsgType.ERROR:
                if isinstance(message.data, aiohttp.WebSocketError):
                    raise Garbled(str(message.data))
                return  # The heartbeat got no answer, or the transport broke: lost, and nobody's fault.
            if message.type is not aiohttp.WSMsgType.BINARY:
                raise Garbled("a carrier connection carries binary messages only")
            try:
                batch = self._decoder.decode(message.data)
            except frames.UNREADABLE as problem:
                raise Garbled(str(problem)) from problem
            yield batch

    def close(self) -> None:
        """Drop what waits and let everybody go who waits for room."""
        self._closed = True
        self._queue.clear()
        self._room.set()
        self._wake.set()
