"""A frontend's end of the carrier: a few kept connections to the owner."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterable, AsyncIterator
from typing import TypeVar, Unpack

import aiohttp
import msgspec
import structlog

from shared.carrier import frames, stream_http
from shared.carrier.calls import Asked, Calls, Options, asked
from shared.carrier.channel import Channel, Garbled
from shared.carrier.identities import ClientIdentity, Credentials, NotEnrolled, check_pin
from shared.carrier.operation import Operation
from shared.carrier.server import CALLS_PATH, INSTANCE_HEADER
from shared.carrier.stream_http import StreamOptions
from shared.carrier.streams import Ticket
from shared.domain.errors import Deadline, OwnerUnreachable
from shared.lifecycle import Tasks

log = structlog.get_logger(__name__)
Req = TypeVar("Req", bound=msgspec.Struct)
Rep = TypeVar("Rep", bound=msgspec.Struct)
_CLOSE_TIMEOUT = 1.0
"""Seconds that an owner gets to say goodbye."""
_PROBLEMS = (aiohttp.ClientError, OSError, TimeoutError, ssl.SSLError, Garbled, NotEnrolled)


class CarrierClient:
    """Calls the owner at `host`:`port`.

    All times are in seconds. `connect_grace`: how long a call waits for a connection before it is
    `OwnerUnreachable`. `heartbeat`: a silent owner is pinged after that time and given up half of it later.
    `backoff`: the first and the longest pause between attempts to connect; each is shortened by chance.
    """

    def __init__(
        self,
        host: str,
        port: int,
        identity: ClientIdentity,
        *,
        connections: int = 2,
        instance: str = "",
        connect_grace: float = 0.25,
        connect_timeout: float = 5.0,
        heartbeat: float = 10.0,
        backoff: tuple[float, float] = (0.05, 2.0),
        frame_limit: int = frames.FRAME_LIMIT,
    ) -> None:
        self._origin = f"https://{host}:{port}"
        self._identity = identity
        self._connections = connections
        self._instance = instance
        self._connect_grace = connect_grace
        self._connect_timeout = connect_timeout
        self._heartbeat = heartbeat
        self._backoff = backoff
        self._frame_limit = frame_limit
        self._tasks = Tasks("carrier-client")
        self._links: list[_Link] = []
        self._turn = 0
        self._connected = asyncio.Event()
        self._session: aiohttp.ClientSession | None = None
        self._credentials: Credentials | None = None

    @property
    def connected(self) -> bool:
        return bool(self._links)

    async def start(self) -> None:
        """Begin to connect; an owner that is away is no failure, an identity that cannot be read is."""
        self._credentials = Credentials(self._identity)
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        for _ in range(self._connections):
            self._tasks.run("link", self._keep_connected())

    async def stop(self) -> None:
        await self._tasks.stop()
        if self._session is not None:
            await self._session.close()

    async def call(self, op: Operation[Req, Rep], request: Req, /, **options: Unpack[Options]) -> Rep:
        what = asked(op, request, options, self._frame_limit)
        link = await self._link(what)
        reply: Rep = await link.calls.call(what)
        return reply

    async def upload(self, ticket: Ticket, chunks: AsyncIterable[bytes]) -> None:
        await stream_http.upload(self._open(), self._stream_options(ticket), chunks)

    def download(self, ticket: Ticket) -> AsyncIterator[bytes]:
        return stream_http.download(self._open(), self._stream_options(ticket), ticket)

    def _stream_options(self, ticket: Ticket) -> StreamOptions:
        return StreamOptions(
            url=f"{self._origin}/stream/{ticket.handle}",
            ssl=self._tls(),
            server_hostname=self._identity.server_name,
            headers={INSTANCE_HEADER: self._instance},
        )

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise OwnerUnreachable("the carrier has not started")
        return self._session

    async def _link(self, what: Asked) -> "_Link":
        """A connection with room for this call; nothing was sent when this raises."""
        if not self._links:
            await self._reconnected(min(self._connect_grace, what.seconds))
        self._turn += 1
        link = self._links[self._turn % len(self._links)]
        if not link.channel.has_room:
            await link.room(what)
        return link

    async def _reconnected(self, grace: float) -> None:
        try:
            async with asyncio.timeout(grace):
                while not self._links:
                    await self._connected.wait()
        except TimeoutError as late:
            raise OwnerUnreachable("the owner cannot be reached") from late

    async def _keep_connected(self) -> None:
        first, longest = self._backoff
        pause = first
        while True:
            try:
                await self._connect()
                pause = first
            except _PROBLEMS as problem:
                log.info("carrier_owner_away", problem=type(problem).__name__)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads attempts, no secret
            pause = min(longest, pause * 2)

    async def _connect(self) -> None:
        """Connect and serve one connection until it ends."""
        async with asyncio.timeout(self._connect_timeout):
            socket = await self._open().ws_connect(
                self._origin + CALLS_PATH,
                ssl=self._tls(),
                server_hostname=self._identity.server_name,
                headers={INSTANCE_HEADER: self._instance},
                heartbeat=self._heartbeat,
                timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_TIMEOUT),
                max_msg_size=self._frame_limit + frames.BATCH_SIZE + frames.MESSAGE_OVERHEAD,
            )
        try:
            check_pin(socket.get_extra_info("ssl_object"), self._identity.pins)
            await self._converse(socket)
        finally:
            await socket.close()

    async def _converse(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        link = _Link(socket)
        writer = self._tasks.run("writer", link.channel.write())
        self._links.append(link)
        self._connected.set()
        try:
            async for batch in link.channel.batches():
                for frame in batch:
                    link.calls.receive(frame)
        finally:
            self._links.remove(link)
            if not self._links:
                self._connected.clear()
            link.channel.close()
            link.calls.lost(link.channel.left)
            writer.cancel()

    def _tls(self) -> ssl.SSLContext:
        assert self._credentials is not None
        try:
            self._credentials.refresh()
        except (OSError, ssl.SSLError) as problem:
            log.warning("carrier_identity_unreadable", problem=str(problem))
        return self._credentials.current


class _Link:
    """One connection and the calls that wait on it."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.channel = Channel(socket, frames.answer_decoder)
        self.calls = Calls(self.channel.send)

    async def room(self, what: Asked) -> None:
        try:
            async with asyncio.timeout(what.seconds):
                await self.channel.writable()
        except TimeoutError as late:
            raise Deadline(f"{what.op.name} could not be sent within {what.seconds:g} s") from late
