"""A cluster of real processes for chaos: kept running like any local cluster, with a relay on every line.

    frontend-N ──db──> Postgres      owner ──db──> Postgres
    frontend-N ──carrier──> owner    owner ──platform──> simulators

Leases are shortened in the proportions of the defaults, so that a seed takes seconds.
"""

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import asyncpg
import msgspec
import psutil

from services.cli.local.cluster import LocalCluster
from services.cli.local.folder import DataFolder
from services.cli.local.plan import Environment, Plan
from shared.config import Settings
from shared.sdk.ops import Inbound
from tests.chaos.gate import Gatekeeper
from tests.support.cluster import People
from tests.support.proxy import Relay
from tests.support.until import until, until_answer

#: seconds after which a stopped process has lost every lease
LEASE = 1.6
SHORT = {
    "TRUNKLINE_LEADER_RENEW_SECONDS": "0.3",
    "TRUNKLINE_LEADER_TRUST_SECONDS": "1.0",
    "TRUNKLINE_LEADER_TAKEOVER_SECONDS": str(LEASE),
    "TRUNKLINE_LEADER_OWNER_LOSS_SECONDS": "3",
    "TRUNKLINE_LEADER_ABSTAIN_SECONDS": "1",
    "TRUNKLINE_TURNS_RENEW_SECONDS": "0.3",
    "TRUNKLINE_TURNS_LEASE_SECONDS": str(LEASE),
    "TRUNKLINE_TURNS_SWEEP_SECONDS": "0.4",
    "TRUNKLINE_OWNER_LEASE_RENEW_SECONDS": "0.3",
    "TRUNKLINE_OWNER_LEASE_TRUST_SECONDS": "1.0",
    "TRUNKLINE_OWNER_LEASE_SECONDS": str(LEASE),
    "TRUNKLINE_OWNER_TEST_ADDONS": "true",
    "TRUNKLINE_OWNER_PREINSTALLED": "telegram probe",
    "TRUNKLINE_POLL_WAIT_SECONDS": "1.5",
    "TRUNKLINE_POLL_DEAF_SECONDS": "1.5",
    "TRUNKLINE_POLL_BACKOFF_SECONDS": "0.5",
    "TRUNKLINE_DELIVERY_SWEEP_SECONDS": "0.4",
    "TRUNKLINE_DELIVERY_RETRY_SECONDS": "0.1",
    "TRUNKLINE_DELIVERY_RETRY_MOST_SECONDS": "0.5",
    "TRUNKLINE_DELIVERY_CALL_SECONDS": "2",
    "TRUNKLINE_DATABASE_STATEMENT_SECONDS": "2",
    "TRUNKLINE_DATABASE_CONNECT_SECONDS": "2",
    "TRUNKLINE_LIMITS_SENDER_PER_MINUTE": "1000",
}
#: what a query meets while Postgres is down, stopped, or on its way up
DATABASE_AWAY = (OSError, TimeoutError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.InternalClientError,
                 asyncpg.CannotConnectNowError, asyncpg.OperatorInterventionError)  # fmt: skip
#: seconds that a rack gets to have all its parts running again
MEND_SECONDS = 30.0


@dataclass(slots=True)
class Wiring(Environment):
    """Leads every line of the children through a relay, and gives them the gate."""

    relays: dict[str, Relay] = field(default_factory=dict)
    gate: Path = Path()
    shards: int = 1
    tree: Path | None = None

    def everyone(self) -> dict[str, str]:
        made = Environment.everyone(self) | SHORT | {"TRUNKLINE_POLL_SHARDS": str(self.shards)}
        return made | ({"PYTHONPATH": str(self.tree)} if self.tree else {})

    def frontend(self, number: int, port: int) -> dict[str, str]:
        made = Environment.frontend(self, number, port) | self._database(f"db:frontend-{number}")
        carrier = self._through(f"carrier:frontend-{number}", self.plan.carrier_port)
        made["TRUNKLINE_CARRIER_URL"] = f"https://127.0.0.1:{carrier}"
        return made | self._gate()

    def owner(self) -> dict[str, str]:
        made = Environment.owner(self) | self._database("db:owner") | SHORT
        platform = self._through("platform:owner", self.plan.simulator_port)
        hosts = {"telegram_api": f"http://127.0.0.1:{platform}"}
        return made | self._gate() | {"TRUNKLINE_OWNER_DEVELOPMENT_HOSTS": json.dumps(hosts)}

    def _database(self, name: str) -> dict[str, str]:
        address = urlsplit(self.database_url)
        port = self._through(name, address.port or 0)
        there = address._replace(netloc=f"{address.username}@127.0.0.1:{port}").geturl()
        return {"TRUNKLINE_DATABASE_URL": there}

    def _gate(self) -> dict[str, str]:
        return {"TRUNKLINE_TESTING_POINTS_SOCKET": str(self.gate)}

    def _through(self, name: str, target: int) -> int:
        self.relays[name].target = target
        return self.relays[name].port


class Rack:
    """Use `async with rack(...)`. Processes are named as their children: `frontend-1`, `owner` ..."""

    def __init__(self, home: Path, frontends: int, shards: int, tree: Path | None) -> None:
        self.frontends = frontends
        self.shards = shards
        self.arrived: list[tuple[float, str, Inbound]] = []
        self.folder = DataFolder(home / "data")
        self.gate = Gatekeeper(home / "gate")
        names = [f"{line}:frontend-{n + 1}" for line in ("db", "carrier") for n in range(frontends)]
        self.relays = {name: Relay(0) for name in [*names, "db:owner", "platform:owner"]}
        self._tree = tree
        self._plan = Plan(frontends, 0, demo=True)
        self._down: set[str] = set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        with self.folder.held():
            await self.gate.start()
            for relay in self.relays.values():
                await relay.start()
            settings = Settings()
            wiring = Wiring(
                self._plan,
                settings,
                self.folder.path,
                relays=self.relays,
                gate=self.gate.path,
                shards=self.shards,
                tree=self._tree,
            )
            self.cluster = LocalCluster(
                self._plan,
                settings,
                self.folder,
                listener=self._changed,
                warn=lambda *_: None,
                environment=wiring,
            )
            self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))
            try:
                await self.cluster.start()
                self.facts = self.cluster.facts()
                yield
            finally:
                await self._end()

    async def _end(self) -> None:
        self.gate.disarm()
        self.wake()
        for relay in self.relays.values():
            relay.thaw()
        await self.cluster.stop()
        for relay in self.relays.values():
            await relay.stop()
        await self.gate.stop()
        await self._http.close()

    def _changed(self, name: str, state: str, sentence: str) -> None:
        (self._down.discard if state == "ready" else self._down.add)(name)

    # -- processes --------------------------------------------------------------------------------------

    def pid(self, name: str) -> int:
        """The process of a part now. Raises NoSuchProcess when it is not there."""
        facts = self.cluster.facts()
        if name == "owner":
            return int(facts["owner"]["pid"])
        if name.startswith("frontend-"):
            return int(facts["frontends"][int(name.removeprefix("frontend-")) - 1]["pid"])
        if name.startswith("addon-"):
            return self._addon(name.removeprefix("addon-"))
        program = {"postgres": "postgres", "nats": "nats-server"}[name]
        port = str(urlsplit(facts[name]["dsn" if name == "postgres" else "url"]).port)
        for child in psutil.Process().children():
            if child.name() == program and port in child.cmdline():
                return int(child.pid)
        raise psutil.NoSuchProcess(0, name)

    def _addon(self, addon: str) -> int:
        for child in psutil.Process(self.pid("owner")).children():
            if f"services.addons.{addon}" in child.cmdline():
                return int(child.pid)
        raise psutil.NoSuchProcess(0, addon)

    def name_of(self, pid: int) -> str:
        """The part that a process is; the process itself when it is none (any more)."""
        facts = self.cluster.facts()
        for number, entry in enumerate(facts["frontends"], 1):
            if entry["pid"] == pid:
                return f"frontend-{number}"
        return "owner" if facts["owner"]["pid"] == pid else str(pid)

    def named(self, frontend_id: str) -> str:
        """The part that has this frontend ID; empty when it has gone."""
        for number, entry in enumerate(self.cluster.facts()["frontends"], 1):
            if entry["id"] == frontend_id:
                return f"frontend-{number}"
        return ""

    def wake(self) -> None:
        """Let every stopped process go on."""
        for name in (*(f"frontend-{n + 1}" for n in range(self.frontends)), "owner", "postgres", "nats"):
            with contextlib.suppress(psutil.Error, LookupError):  # not there, or not yet
                part = psutil.Process(self.pid(name))
                for process in (part, *part.children(recursive=True)):
                    if process.status() == psutil.STATUS_STOPPED:
                        process.resume()

    async def mended(self) -> None:
        """Wait until every part runs, one leads, and the owner has its add-ons."""
        self.wake()
        for relay in self.relays.values():
            relay.thaw()
        await until(lambda: not self._down, within=MEND_SECONDS)
        await until_answer(self._whole, within=MEND_SECONDS)

    async def _whole(self) -> bool:
        try:
            self._addon("telegram")
            self._addon("probe")
        except psutil.Error:
            return False
        led = await self.fetch("SELECT holder FROM leases WHERE name = 'leader' AND NOT released")
        return len([row for row in led if self.named(row["holder"])]) == self.shards

    # -- the platform that pushes -----------------------------------------------------------------------

    @property
    def probe_data(self) -> Path:
        """The folder in which the probe keeps what people wrote and see."""
        return self.folder.path / "addons" / "data" / "probe"

    def arrive(self, pushed: tuple[str, Inbound], at: float) -> None:
        """A message arrives at the probe, whether it runs or not."""
        binding, message = pushed
        self.arrived.append((at, binding, message))
        folder = self.probe_data / "arrivals"
        folder.mkdir(mode=0o700, exist_ok=True)
        part = folder / f"{message.id}.part"
        part.write_bytes(msgspec.json.encode({"binding": binding, "message": message}))
        part.rename(part.with_suffix(".json"))

    # -- asking -----------------------------------------------------------------------------------------

    @property
    def sim(self) -> People:
        return People(self._http, self._plan.simulators_url, self._plan.demo_bot)

    async def api(self, method: str, path: str, body: Any = None) -> Any:
        """The answer of whichever frontend answers, as the administrator."""
        problem: Exception | None = None
        for entry in self.cluster.facts()["frontends"]:
            try:
                return await self._ask(entry["url"] + path, method, body)
            except (aiohttp.ClientError, TimeoutError) as failed:
                problem = failed
        raise AssertionError(f"no frontend answers {method} {path}") from problem

    async def _ask(self, url: str, method: str, body: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.facts['api_key']}"}
        timeout = aiohttp.ClientTimeout(total=10)
        async with self._http.request(method, url, json=body, headers=headers, timeout=timeout) as response:
            answer = await response.read()
            assert response.status < 300, (url, response.status, answer)
            return json.loads(answer) if answer else None

    async def fetch(self, query: str, *args: Any) -> Sequence[Any]:
        """Rows, over a connection that no relay is in the way of; a Postgres that is away is waited for."""
        give_up = time.monotonic() + MEND_SECONDS
        while True:
            try:
                return await self._fetch(query, *args)
            except DATABASE_AWAY:
                if time.monotonic() > give_up:
                    raise
            await asyncio.sleep(0.05)

    async def _fetch(self, query: str, *args: Any) -> Sequence[Any]:
        connection = await asyncpg.connect(self.facts["postgres"]["dsn"], timeout=2)
        try:
            await connection.set_type_codec(
                "jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads
            )
            rows: Sequence[Any] = await connection.fetch(query, *args, timeout=10)
            return rows
        finally:
            connection.terminate()

    async def fetchval(self, query: str, *args: Any) -> Any:
        rows = await self.fetch(query, *args)
        return rows[0][0] if rows else None


@contextlib.asynccontextmanager
async def rack(*, frontends: int = 3, shards: int = 1, tree: Path | None = None) -> AsyncIterator[Rack]:
    """A running rack, and nothing of it left afterwards. `tree` holds other sources for its services."""
    home = Path(tempfile.mkdtemp(prefix="trunkline-chaos-"))
    os.chmod(home, 0o711)  # noqa: PTH101 - the user of Postgres passes through
    made = Rack(home, frontends, shards, tree)
    try:
        async with made.running():
            yield made
    finally:
        shutil.rmtree(home, ignore_errors=True)
