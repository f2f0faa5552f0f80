"""One frontend: what it is made of, in the order in which it starts."""

import secrets
import socket

from services.frontend.api.services import Services
from services.frontend.bootstrap import first_sign_in_link
from services.frontend.catalog import Catalog
from services.frontend.leader.election import Term
from services.frontend.leader.leadership import Leadership
from services.frontend.leader.polling import Polling
from services.frontend.links import Links
from services.frontend.model import ModelClient
from services.frontend.notices import NotificationSender
from services.frontend.readiness import Readiness
from services.frontend.turns.pool import TurnPool
from services.frontend.turns.runner import TurnRunner
from services.frontend.turns.typing import Typing
from services.frontend.web import build_app
from shared.bus import Bus
from shared.bus.connect import bus_for
from shared.carrier import Carrier
from shared.config import Settings
from shared.lifecycle import Service, Stack, Tasks
from shared.observe.health import Health
from shared.observe.http import HttpServer
from shared.store import Database
from shared.store.open import Store, key_ring
from shared.store.presence import Presence
from shared.version import VERSION


class Frontend:
    """A Service. `carrier` is how it reaches the owner: over the wire, or directly in the combined form.

    In the combined form `bus` is the one that the owner has started.
    """

    def __init__(self, settings: Settings, carrier: Carrier, bus: Bus | None = None) -> None:
        self.id = settings.frontend.id or f"{socket.gethostname()}-{secrets.token_hex(3)}"
        self.url = ""
        self.health = Health("frontend", VERSION)
        self._settings = settings
        self._carrier = carrier
        self._bus = bus
        self._stack = Stack()

    async def start(self) -> None:
        try:
            await self._start()
        except BaseException:
            await self._stack.stop()
            raise
        self.health.ready = True

    async def stop(self) -> None:
        """Not ready, leadership over, turns ended or handed over, then everything else in reverse."""
        self.health.ready = False
        await self._stack.stop()

    async def _start(self) -> None:
        settings = self._settings
        database = (await self._stack.enter(Store(settings.database, name=self.id))).database
        ring = await key_ring(settings.sealing, database)
        bus = self._bus or await self._stack.enter(bus_for(settings.nats, name=self.id))
        if isinstance(self._carrier, Service):
            await self._stack.enter(self._carrier)
        model = await self._stack.enter(ModelClient(settings.model))
        catalog = Catalog(database)
        readiness = Readiness(database, bus)
        readiness.watch(self.health)
        (await self._stack.enter(Links(database, settings.poll))).watch(self.health)
        presence = Presence(
            database, frontend=self.id, version=VERSION, lease_seconds=settings.turns.lease_seconds
        )
        pool = self._pool(database, bus, model, catalog, presence)
        services = Services(settings, database, bus, self._carrier, ring, model, catalog, pool, self.id)
        app = build_app(services, self.health)
        http = HttpServer(app, settings.http.host, settings.http.port, chosen_by="TRUNKLINE_HTTP_PORT")
        await self._stack.enter(http)
        self.url = presence.url = http.url
        await self._stack.enter(pool)
        await self._stack.enter(NotificationSender(database, bus))
        await self._stack.enter(self._leadership(services, readiness))
        await self._offer_first_sign_in(database)

    async def _offer_first_sign_in(self, database: Database) -> None:
        """Show the operator the way in while nobody has a password; a log would keep the link for others."""
        link = await first_sign_in_link(database, self._settings.http.public_url or self.url)
        if link is not None:
            print(f"Sign in for the first time: {link}", flush=True)  # noqa: T201 - not for a log

    def _pool(
        self, database: Database, bus: Bus, model: ModelClient, catalog: Catalog, presence: Presence
    ) -> TurnPool:
        settings = self._settings
        running = Tasks("running")
        typing = Typing(self._carrier, running)
        runner = TurnRunner(
            database=database,
            bus=bus,
            carrier=self._carrier,
            model=model,
            catalog=catalog,
            typing=typing,
            settings=settings.turns,
            holder=self.id,
            tasks=running,
        )
        return TurnPool(
            database=database,
            bus=bus,
            runner=runner,
            presence=presence,
            tasks=running,
            typing=typing,
            settings=settings.turns,
            limits=settings.limits,
            holder=self.id,
            max_turns=settings.frontend.max_turns,
            grace_seconds=settings.frontend.grace_seconds,
        )

    def _leadership(self, services: Services, readiness: Readiness) -> Leadership:
        def duties(term: Term) -> Polling:
            return Polling(
                database=services.database,
                bus=services.bus,
                carrier=services.carrier,
                settings=self._settings.poll,
                term=term,
                on_poll=readiness.poll_completed,
            )

        leadership = Leadership(
            database=services.database,
            bus=services.bus,
            settings=self._settings.leader,
            holder=self.id,
            shards=self._settings.poll.shards,
            duties=duties,
        )
        readiness.terms = lambda: leadership.terms
        readiness.foreign = lambda: leadership.foreign
        return leadership
