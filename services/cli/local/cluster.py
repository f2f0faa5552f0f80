"""A whole cluster on one machine: engines, owner, frontends and, for the demo, simulators.

    engines, simulators ──> prepare (certificates, schema, samples) ──> owner, frontends ──> run.json

Each part is kept running by a Keeper; whenever all are ready again, run.json is written anew.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from services.cli.local.child import Child
from services.cli.local.folder import DataFolder
from services.cli.local.keeper import Keeper, Kept, Listener
from services.cli.local.nats import Nats
from services.cli.local.plan import Environment, Plan
from services.cli.local.postgres import Postgres
from services.cli.local.tail import Tail
from shared.config import Settings
from shared.lifecycle import Tasks
from shared.observe.port import require_free

#: warnings that say what the demo is: its platforms are simulators
_DEMO_EVENTS = frozenset({"platforms_replaced_by_the_operator", "development_address_in_use"})
#: connections that a process opens beside its pool: leases, presence, checks
_OWN_CONNECTIONS = 8


class LocalCluster:
    """A Service. `listener` hears of each part's state, `warn` of the warnings in the children's logs.

    `environment` replaces what the children get: tests put relays between them.
    """

    def __init__(
        self,
        plan: Plan,
        settings: Settings,
        folder: DataFolder,
        *,
        listener: Listener,
        warn: Callable[[str, str, str], None],
        environment: Environment | None = None,
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._folder = folder
        self._listener = listener
        self._environment = environment or Environment(plan, settings, folder.path)
        self._tail = Tail(warn, known=_DEMO_EVENTS if plan.demo else frozenset())
        self._tasks = Tasks("up")
        self._engines: list[Keeper] = []
        self._services: list[Keeper] = []
        self._children: dict[str, Child] = {}
        self._prepared: dict[str, Any] = {}
        self._complete = False

    async def start(self) -> None:
        """Raises Refused, PortTaken or EngineFailed with the first problem."""
        if self._plan.port:
            # Asked before anything starts: a second `up` beside the first is the most usual mistake.
            choice = "--port or TRUNKLINE_HTTP_PORT"
            await require_free(self._settings.http.host, self._plan.port, chosen_by=choice)
        self._tasks.run("tail", self._tail.follow())
        early: list[Awaitable[None]] = [self._start_engines()]
        if self._plan.demo:
            early.append(self._service("simulators", self._simulators()).start())
        await _all(early)
        await self._prepare()
        await _all(keeper.start() for keeper in self._owner_and_frontends())
        self._complete = True
        self._folder.write_run_file(self.facts())

    async def stop(self) -> None:
        """Frontends first, then the owner and the simulators, then the engines."""
        self._complete = False
        frontends = [keeper for keeper in self._services if keeper.name.startswith("frontend")]
        await _all(keeper.stop() for keeper in frontends)
        await _all(keeper.stop() for keeper in self._services)
        await _all(keeper.stop() for keeper in self._engines)
        await self._tasks.stop()

    def facts(self) -> dict[str, Any]:
        """The content of run.json."""
        frontends = [child.facts for name, child in self._children.items() if name.startswith("frontend")]
        owner = self._children["owner"].facts if "owner" in self._children else frontends[0]
        made = self._prepared
        demo = {"agent_id": made.get("agent_id"), "binding_id": made.get("binding_id")}
        return {
            "frontends": [{key: facts[key] for key in ("id", "pid", "url")} for facts in frontends],
            "owner": {key: owner[key] for key in ("pid", "url")},
            "simulators": {"url": self._plan.simulators_url} if self._plan.demo else None,
            "postgres": {"dsn": self._environment.database_url},
            "nats": {"url": self._environment.nats_url},
            "api_key": made["api_key"],
            "sign_in_url": (self._settings.http.public_url.rstrip("/") or frontends[0]["url"])
            + made["sign_in_path"],
            "demo": {**demo, "telegram_bot": self._plan.demo_bot} if self._plan.demo else None,
        }

    # -- parts ------------------------------------------------------------------------------------------

    async def _start_engines(self) -> None:
        self._environment.database_url = self._settings.database.url
        self._environment.nats_url = self._settings.nats.url
        postgres, nats = None, None
        if not self._settings.database.url:
            postgres = Postgres(
                self._folder.path / "postgres",
                fast=self._plan.fast_database,
                max_connections=40
                + (self._plan.frontends + 1) * (self._settings.database.pool_size + _OWN_CONNECTIONS),
            )
            self._engine("postgres", postgres)
        if not self._settings.nats.url:
            nats = Nats(self._folder.log("nats"))
            self._engine("nats", nats)
        await _all(keeper.start() for keeper in self._engines)
        self._environment.database_url = postgres.url if postgres else self._settings.database.url
        self._environment.nats_url = nats.url if nats else self._settings.nats.url

    async def _prepare(self) -> None:
        words = ["prepare"]
        if not self._plan.combined:
            words += ["--certificates", str(self._folder.path / "certs")]
        if self._plan.demo:
            words += ["--demo-bot", self._plan.demo_bot, "--model", self._environment.demo_model]
        child = Child(
            lambda: words, self._environment.everyone, log=self._folder.log("prepare"), stop_seconds=5.0
        )
        self._listener("schema", "starting", "")
        try:
            await child.start()
        finally:
            await child.stop()
        self._listener("schema", "ready", "")
        self._prepared = child.facts

    def _owner_and_frontends(self) -> list[Keeper]:
        grace = self._settings.frontend.grace_seconds + 10
        made = []
        if not self._plan.combined:
            made.append(
                self._service("owner", self._child("owner", ["owner"], self._environment.owner, 15.0))
            )
        numbers = range(1, self._plan.frontends + 1)
        return made + [self._service(f"frontend-{n}", self._frontend(n, grace)) for n in numbers]

    def _frontend(self, number: int, grace: float) -> Child:
        name = f"frontend-{number}"
        words = ["frontend", "--combined"] if self._plan.combined else ["frontend"]
        asked = self._plan.port if number == 1 else 0

        def environment() -> dict[str, str]:
            # It keeps the port of its first start, so that its address stays the same.
            url = self._children[name].facts.get("url", "")
            port = int(url.rpartition(":")[2]) if url else asked
            return self._environment.frontend(number, port)

        return self._child(name, words, environment, grace)

    def _simulators(self) -> Child:
        words = ["sim", "--port", str(self._plan.simulator_port), "--demo-bot", self._plan.demo_bot]
        contracts = self._plan.contracts
        words += ["--contracts", str(contracts.absolute())] if contracts else ["--no-validate"]
        return self._child("simulators", words, dict, 5.0)

    def _child(
        self, name: str, words: list[str], environment: Callable[[], dict[str, str]], grace: float
    ) -> Child:
        log = self._folder.log(name)
        self._tail.add(name, log)
        child = Child(lambda: words, environment, log=log, stop_seconds=grace)
        self._children[name] = child
        return child

    def _engine(self, name: str, engine: Kept) -> None:
        self._engines.append(Keeper(name, engine, self._changed))

    def _service(self, name: str, child: Child) -> Keeper:
        keeper = Keeper(name, child, self._changed)
        self._services.append(keeper)
        return keeper

    def _changed(self, name: str, state: str, sentence: str) -> None:
        self._listener(name, state, sentence)
        if self._complete and all(keeper.ready for keeper in (*self._engines, *self._services)):
            self._folder.write_run_file(self.facts())


async def _all(works: Iterable[Awaitable[None]]) -> None:
    """Wait for all of them, then raise the first failure."""
    results = await asyncio.gather(*works, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
