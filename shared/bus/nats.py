"""The bus over NATS core subjects."""

import asyncio
import contextlib
import ssl
from typing import TypeVar

import msgspec
import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription as NatsSubscription
from nats.errors import Error as NatsError
from nats.errors import OutboundBufferLimitError

from shared.bus.bus import Handler, Subscription, encode
from shared.bus.subjects import ANY, Subject
from shared.lifecycle import Tasks

log = structlog.get_logger(__name__)
Payload = TypeVar("Payload", bound=msgspec.Struct)
_STOP_GRACE = 2.0
"""Seconds that the last signals get to leave."""
_OUTGOING = 10_000
"""Signals that wait to leave; more can only gather while the server does not read."""


class NatsBus:
    """Connects to `url` in the background and for as long as it takes; without a connection signals are dropped.

    `name` is what the server shows for this connection; `tls` is for `tls://` servers. `reconnect_wait` (seconds)
    lies between two attempts; `start_grace` (seconds) is how long `start` waits for the first connection before
    it goes on without.
    """

    def __init__(
        self,
        url: str,
        *,
        tls: ssl.SSLContext | None = None,
        name: str = "trunkline",
        reconnect_wait: float = 0.25,
        start_grace: float = 2.0,
    ) -> None:
        self.dropped = 0
        self._url = url
        self._tls = tls
        self._name = name
        self._reconnect_wait = reconnect_wait
        self._start_grace = start_grace
        self._tasks = Tasks("bus")
        self._client: Client | None = None
        self._ready = asyncio.Event()
        self._closed = asyncio.Event()
        self._outgoing: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue(_OUTGOING)
        self._subscriptions: dict[Subscription, NatsSubscription | None] = {}
        self._started = False

    @property
    def connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    async def start(self) -> None:
        self._started = True
        self._tasks.run("connection", self._keep_connected())
        self._tasks.run("publisher", self._send())
        for subscription in self._subscriptions:
            subscription.begin(self._tasks)
        try:
            async with asyncio.timeout(self._start_grace):
                await self._ready.wait()
        except TimeoutError:
            log.warning("bus_away_at_start")

    async def stop(self) -> None:
        """Let out what was published, then leave."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_GRACE):
                await self._flush()
        self._started = False
        await self._tasks.stop()

    def publish(self, subject: Subject[Payload], payload: Payload, *, key: str = "") -> None:
        address = subject.target(key)
        if not self.connected:
            self.dropped += 1
            return
        try:
            self._outgoing.put_nowait((address, encode(payload)))
        except asyncio.QueueFull:
            self.dropped += 1

    def subscribe(
        self, subject: Subject[Payload], handler: Handler[Payload], *, key: str = ANY, queue: str = ""
    ) -> Subscription:
        made = Subscription(subject, handler, key=key, queue=queue)
        self._subscriptions[made] = None
        made.on_cancel = lambda: self._forget(made)
        if self._started:
            made.begin(self._tasks)
        if self._client is not None and self._started:
            self._tasks.run("subscribe", self._attach(self._client, made))
        return made

    async def _keep_connected(self) -> None:
        """The client reconnects by itself; should it ever give up, another one takes its place."""
        while True:
            self._closed.clear()
            client = Client()
            try:
                await self._connect(client)
                self._client = client
                for subscription in list(self._subscriptions):
                    await self._attach(client, subscription)
                self._ready.set()
                await self._closed.wait()
            except (NatsError, OSError, TimeoutError) as problem:
                log.warning("bus_connection_failed", problem=type(problem).__name__)
            finally:
                self._client = None
                self._subscriptions = dict.fromkeys(self._subscriptions)
                await client.close()
            await asyncio.sleep(self._reconnect_wait)

    async def _connect(self, client: Client) -> None:
        await client.connect(
            self._url,
            name=self._name,
            tls=self._tls,
            allow_reconnect=True,
            max_reconnect_attempts=-1,
            reconnect_time_wait=self._reconnect_wait,  # type: ignore[arg-type]  # it sleeps for any number
            connect_timeout=2,
            ping_interval=10,
            error_cb=_on_error,
            disconnected_cb=self._on_lost,
            reconnected_cb=self._on_back,
            closed_cb=self._on_closed,
        )

    async def _attach(self, client: Client, subscription: Subscription) -> None:
        async def take(message: Msg) -> None:
            subscription.put(message.subject, message.data)

        if subscription not in self._subscriptions:
            return
        try:
            attached = await client.subscribe(subscription.address, queue=subscription.queue, cb=take)
            if subscription not in self._subscriptions:
                await attached.unsubscribe()
                return
            self._subscriptions[subscription] = attached
            # The server answers in order, but this client's ping overtakes what still waits to be written: when
            # the first answer is here, that has left, and the second answer comes after the subscription.
            await client.flush(timeout=2)
            await client.flush(timeout=2)
        except (NatsError, OSError, TimeoutError):
            return  # The connection broke; what is attached comes back with it, and is active then.
        subscription.activate()

    def _forget(self, subscription: Subscription) -> None:
        attached = self._subscriptions.pop(subscription, None)
        if attached is not None and self._client is not None and self._started:
            self._tasks.run("unsubscribe", _detach(attached))

    async def _send(self) -> None:
        while True:
            address, data = await self._outgoing.get()
            try:
                if self._client is None:
                    raise OutboundBufferLimitError
                await self._client.publish(address, data)
            except (NatsError, OSError):
                self.dropped += 1
            finally:
                self._outgoing.task_done()

    async def _flush(self) -> None:
        if self.connected and self._client is not None:
            await self._outgoing.join()
            with contextlib.suppress(NatsError, OSError):
                await self._client.flush(timeout=1)

    async def _on_lost(self) -> None:
        if self._started:  # our own leaving is no loss
            log.warning("bus_lost")

    async def _on_back(self) -> None:
        """The client has renewed all that was attached."""
        log.info("bus_back")
        for subscription, attached in self._subscriptions.items():
            if attached is not None:
                subscription.activate()

    async def _on_closed(self) -> None:
        self._closed.set()


async def _detach(attached: NatsSubscription) -> None:
    with contextlib.suppress(NatsError, OSError):
        await attached.unsubscribe()


async def _on_error(problem: Exception) -> None:
    log.debug("bus_trouble", problem=type(problem).__name__)
