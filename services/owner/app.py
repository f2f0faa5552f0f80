"""The owner: what it is made of, in the order in which it starts."""

import json
import os
from pathlib import Path

import structlog

from services.owner.authority import Authority
from services.owner.calls import ConnectorCalls
from services.owner.credentials import Credentials
from services.owner.deliveries import DeliveryQueue
from services.owner.gallery import Gallery, bundled_addons
from services.owner.host import HostOperations
from services.owner.lease import OwnerLease
from services.owner.links import LinkBook
from services.owner.messages import MessageLocks
from services.owner.operations import ToolCalls
from services.owner.pacing import Pacer
from services.owner.previews import Previews
from services.owner.process import Surroundings
from services.owner.root import Root
from services.owner.supervisor import Supervisor
from shared.bus import subjects
from shared.bus.connect import bus_for
from shared.carrier import Call, Handlers
from shared.carrier import operations as ops
from shared.config import Settings
from shared.lifecycle import Stack
from shared.observe import metrics
from shared.observe.health import Finding, Health
from shared.store.open import Store, key_ring
from shared.version import VERSION

log = structlog.get_logger(__name__)


class Owner:
    """A Service. `handlers` and `authority` are what a carrier, on the wire or direct, needs to serve it; `bus` is
    its bus, which a frontend in the same process shares.

    Everything is made at once and may be asked from the beginning: until it is ready, and when it is fenced, the
    authority says so.
    """

    def __init__(self, settings: Settings) -> None:
        self.handlers = Handlers()
        self.health = Health("owner", VERSION)
        self._settings = settings
        self._store = Store(settings.database, name="owner")
        self._database = self._store.database
        self.authority = Authority(self._database)
        self.bus = bus_for(settings.nats, name="owner")
        self._credentials = Credentials(self._database)
        self._root = Root(Path(settings.owner.root))
        self._lease = OwnerLease(
            self._database, settings=settings.owner, on_fenced=self._fence, on_resumed=self._resume
        )
        self._stack, self._acting = Stack(), Stack()
        self._compose()

    async def start(self) -> None:
        try:
            await self._stack.enter(self._root)
            await self._stack.enter(self._store)
            self._credentials.unlock(await key_ring(self._settings.sealing, self._database))
            await self._stack.enter(self.bus)
            self._lease.root_id = self._root.id
            await self._stack.enter(self._lease)
            await self._begin_to_act()
        except BaseException:
            await self.stop()
            raise
        self.authority.ready = True
        self.health.ready = True

    async def stop(self) -> None:
        self.health.ready = False
        self.authority.ready = False
        await self._acting.stop()
        await self._stack.stop()

    def _compose(self) -> None:
        settings, database = self._settings, self._database
        self._supervisor = Supervisor(
            database=database,
            gallery=Gallery(bundled_addons(), shows_hidden=settings.owner.test_addons),
            packages=self._root.folder / "packages",
            surroundings=self._surroundings,
            preinstalled=settings.owner.preinstalled.split(),
        )
        pacer, locks = Pacer(), MessageLocks()
        self._deliveries = DeliveryQueue(
            database=database,
            bus=self.bus,
            addons=self._supervisor,
            credentials=self._credentials,
            pacer=pacer,
            locks=locks,
            settings=settings.delivery,
            term=lambda: self._lease.term,
            trusted=lambda: self._lease.trusted,
        )
        self._tools = ToolCalls(database=database, addons=self._supervisor, term=lambda: self._lease.term)
        self._links = LinkBook(database, self._supervisor.heard)
        self._host = HostOperations(database, self.bus, self._supervisor, self._root)
        calls = ConnectorCalls(
            database=database,
            addons=self._supervisor,
            credentials=self._credentials,
            authority=self.authority,
            pacer=pacer,
        )
        calls.bind(self.handlers)
        self._previews = Previews(
            database=database,
            addons=self._supervisor,
            credentials=self._credentials,
            pacer=pacer,
            locks=locks,
        )
        self._previews.bind(self.handlers)
        self._supervisor.bind(self.handlers)
        self._tools.bind(self.handlers)
        self.handlers.on(ops.STATUS, self._status)
        self.bus.subscribe(subjects.BINDING_CHANGED, self._on_binding_changed)
        self.health.add("owner", self._check)

    async def _begin_to_act(self) -> None:
        metrics.OWNER_TERM.set(self._lease.term)
        await self._acting.enter(self._host)
        await self._acting.enter(self._supervisor)
        await self._acting.enter(self._previews)
        await self._acting.enter(self._tools)
        await self._acting.enter(self._deliveries)
        await self._acting.enter(self._links)

    async def _fence(self) -> None:
        """Answer `owner_fenced` and end everything that acts: another owner may start its own now."""
        self.authority.fenced = True
        metrics.OWNER_TERM.set(0)
        # The add-ons first, for another owner may soon start its own; calls that are out get their time after that.
        await self._supervisor.stop()
        await self._acting.stop()

    async def _resume(self) -> None:
        try:
            await self._begin_to_act()
        except BaseException:
            await self._acting.stop()
            raise
        self.authority.fenced = False

    def _surroundings(self) -> Surroundings:
        settings = self._settings.owner
        development: dict[str, str] = json.loads(settings.development_hosts or "{}")
        if development:
            log.warning("platforms_replaced_by_the_operator", settings=sorted(development))
        return Surroundings(
            data=self._root.folder / "data",
            sockets=self._root.sockets,
            inherited=(self._root.inherited,),
            settings=development,
            ping_seconds=settings.ping_seconds,
            silence_seconds=settings.addon_seconds,
        )

    async def _on_binding_changed(self, key: str, changed: subjects.BindingChanged) -> None:  # noqa: ARG002
        self._credentials.forget(key)

    async def _status(self, _request: ops.Nothing, _call: Call) -> ops.OwnerStatus:
        listed = await self._supervisor.listed()
        return ops.OwnerStatus("ready", self._lease.term, os.getpid(), VERSION, listed, self.authority.terms)

    async def _check(self) -> Finding:
        facts = {"term": self._lease.term, "addons": [running.id for running in self._supervisor.running()]}
        if self._lease.fenced:
            sentence = (
                "this owner is fenced: another one took over, or the database has been away for too long"
            )
            return Finding(ok=False, sentence=sentence, facts=facts)
        return Finding(ok=True, facts=facts)
