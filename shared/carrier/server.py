"""The owner's end of the carrier: one TLS listener for calls and streams."""

import asyncio
import re
import ssl

import structlog
from aiohttp import WSCloseCode, web

from shared.carrier import frames
from shared.carrier.call import Peer
from shared.carrier.channel import Channel, Garbled
from shared.carrier.desk import Authorize, Desk, Handlers, Reception
from shared.carrier.identities import Credentials, NotEnrolled, ServerIdentity, check_pin, peer_of, renewable
from shared.carrier.stream_http import stream_routes
from shared.carrier.streams import Streams
from shared.lifecycle import Tasks

log = structlog.get_logger(__name__)
CALLS_PATH = "/carrier"
INSTANCE_HEADER = "Trunkline-Instance"
_INSTANCE = re.compile(r"[A-Za-z0-9._-]{0,64}")


class CarrierServer:
    """Receives the calls of enrolled peers.

    `heartbeat` is in seconds: a silent peer is pinged after that time and dropped half of it later.
    `reload_interval` (seconds) is how often the certificate files are looked at; a changed identity serves
    new connections, and those that exist live on. `stop_grace` (seconds) is what running calls get at stop.
    """

    def __init__(
        self,
        handlers: Handlers,
        *,
        identity: ServerIdentity,
        authorize: Authorize,
        streams: Streams | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        max_in_flight_per_peer: int = 2048,
        frame_limit: int = frames.FRAME_LIMIT,
        heartbeat: float = 10.0,
        reload_interval: float = 10.0,
        stop_grace: float = 5.0,
    ) -> None:
        self._identity = identity
        self._streams = streams
        self._host = host
        self._port = port
        self._heartbeat = heartbeat
        self._reload_interval = reload_interval
        self._stop_grace = stop_grace
        self._calls = Tasks("carrier")
        self._tasks = Tasks("carrier-server")
        self._desk = Desk(
            handlers,
            authorize=authorize,
            tasks=self._calls,
            max_in_flight_per_peer=max_in_flight_per_peer,
            frame_limit=frame_limit,
        )
        self._sockets: set[web.WebSocketResponse] = set()
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._credentials: Credentials | None = None

    @property
    def port(self) -> int:
        """The port it listens on, once started."""
        return self._port

    async def start(self) -> None:
        self._credentials = Credentials(self._identity)
        app = web.Application()
        app.router.add_get(CALLS_PATH, self._serve)
        if self._streams is not None:
            app.add_routes(stream_routes(self._streams, self._peer))
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=False, shutdown_timeout=1.0)
        try:
            await self._runner.setup()
            tls = renewable(self._credentials)
            self._site = web.TCPSite(self._runner, self._host, self._port, ssl_context=tls)
            await self._site.start()
            self._port = self._runner.addresses[0][1]
        except BaseException:
            await self.stop()
            raise
        self._tasks.run("rotation", self._rotate())

    async def stop(self) -> None:
        """Refuse new calls, give the running ones their grace, break off the rest, close."""
        self._desk.closing = True
        if self._site is not None:
            await self._site.stop()
            self._site = None
        await self._calls.stop(grace=self._stop_grace)
        for open_socket in list(self._sockets):
            await open_socket.close(code=WSCloseCode.GOING_AWAY)
        await self._tasks.stop()
        if self._streams is not None:
            self._streams.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def reload(self) -> None:
        """Serve new connections with the identity as its files are now; broken files keep the old one."""
        if self._credentials is None:
            return
        try:
            changed = self._credentials.refresh()
        except (OSError, ssl.SSLError) as problem:
            log.warning("carrier_identity_unreadable", problem=str(problem))
            return
        if changed:
            log.info("carrier_identity_renewed")

    async def _rotate(self) -> None:
        while True:
            await asyncio.sleep(self._reload_interval)
            self.reload()

    def _peer(self, request: web.Request) -> Peer:
        """Who is calling; a peer that is not enrolled gets a 403 instead of a connection."""
        tls = request.get_extra_info("ssl_object")
        instance = request.headers.get(INSTANCE_HEADER, "")
        try:
            peer = peer_of(tls.getpeercert() or {})
            check_pin(tls, self._identity.pins)
            if peer.role not in self._identity.roles or not _INSTANCE.fullmatch(instance):
                raise NotEnrolled(f"a {peer.role} does not call here")
        except NotEnrolled as refusal:
            log.warning("carrier_peer_refused", remote=request.remote, reason=str(refusal))
            raise web.HTTPForbidden(text=str(refusal)) from refusal
        return Peer(peer.role, peer.name, instance)

    async def _serve(self, request: web.Request) -> web.WebSocketResponse:
        peer = self._peer(request)
        connection = web.WebSocketResponse(
            heartbeat=self._heartbeat,
            compress=False,
            timeout=1.0,
            max_msg_size=self._desk.frame_limit + frames.BATCH_SIZE + frames.MESSAGE_OVERHEAD,
        )
        await connection.prepare(request)
        self._sockets.add(connection)
        try:
            await self._converse(connection, peer)
        finally:
            self._sockets.discard(connection)
        return connection

    async def _converse(self, connection: web.WebSocketResponse, peer: Peer) -> None:
        channel = Channel(connection, frames.asking_decoder)
        reception = Reception(self._desk, peer, channel)
        writer = self._tasks.run("writer", channel.write())
        try:
            async for batch in channel.batches():
                for frame in batch:
                    reception.receive(frame)
                # Who does not read the answers is not read from either.
                await channel.writable()
        except Garbled as problem:
            log.warning("carrier_peer_garbled", peer=peer.name, problem=str(problem)[:200])
            await connection.close(code=WSCloseCode.PROTOCOL_ERROR)
        finally:
            channel.close()
            writer.cancel()
