"""A whole cluster for tests: `trunkline up` as a real process, with the simulators on its other side."""

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import asyncpg
import psutil

from tests.support.spec import DEFAULT as SPEC
from tests.support.until import until

START_SECONDS = 60.0
ADA = {"id": 5001, "first_name": "Ada"}


class People:
    """People on the simulated platforms: they write, and read what the bot shows."""

    def __init__(self, http: aiohttp.ClientSession, url: str, bot: str) -> None:
        self._http = http
        self.url = url
        self.bot = bot

    async def say(self, text: str, *, chat: int = 5001, **more: Any) -> int:
        """A person writes to the bot in a direct chat; returns the update ID."""
        person = {"id": chat, "first_name": f"Person {chat}"} if chat != ADA["id"] else ADA
        body = {"bot": self.bot, "chat": chat, "from": person, "text": text, **more}
        return int((await self.post("telegram/events", body))["event"])

    async def answer(self, text: str, *, chat: int = 5001, timeout: float = 20.0) -> list[Any]:
        """Wait until a message of the bot shows `text`; the visible messages of the chat then."""
        page = await self.get("telegram/messages", chat=chat, wait_text=text, timeout=timeout)
        assert page["found"], f"the bot did not say {text!r}: {page['messages']}"
        return list(page["messages"])

    async def messages(self, chat: int = 5001) -> list[Any]:
        """The visible messages of a chat, in order."""
        return list((await self.get("telegram/messages", chat=chat))["messages"])

    async def calls(self, platform: str = "telegram", *, since: int = 0) -> list[Any]:
        """Every API call that a stand-in received."""
        return list((await self.get(f"{platform}/calls", since=since))["calls"])

    async def wait_call(self, method: str, *, platform: str = "telegram", **query: Any) -> dict[str, Any]:
        """Wait for a call of this method (`since`, `state`, `chat`, `status`, `timeout`: as in the control API)."""
        page: dict[str, Any] = await self.get(f"{platform}/wait", method=method, **query)
        assert page["found"], f"no call of {method} came"
        return page

    async def fault(self, method: str, *, platform: str = "telegram", **fault: Any) -> None:
        await self.post(f"{platform}/faults", {"method": method, **fault})

    async def script(self, *steps: dict[str, Any], **more: Any) -> None:
        """What the model answers (see the control API)."""
        await self.post("model/script", {"steps": list(steps), **more})

    async def forget_scripts(self) -> None:
        """The model answers new requests as if it had no script."""
        await self.delete("model/script")

    async def delete(self, path: str) -> None:
        """Take back what was set there: faults or scripts."""
        async with self._http.delete(f"{self.url}/_sim/{path}") as response:
            assert response.status == 200, await response.text()

    async def forget_faults(self, *, platform: str = "telegram") -> None:
        """What was to happen to later calls does not."""
        async with self._http.delete(f"{self.url}/_sim/{platform}/faults") as response:
            assert response.status == 200, await response.text()

    async def post(self, path: str, body: Any) -> Any:
        async with self._http.post(f"{self.url}/_sim/{path}", json=body) as response:
            assert response.status == 200, await response.text()
            return await response.json()

    async def get(self, path: str, **query: Any) -> Any:
        async with self._http.get(f"{self.url}/_sim/{path}", params=query) as response:
            assert response.status == 200, await response.text()
            return await response.json()


class Cluster:
    """`async with Cluster(frontends=3) as cluster:`; everything is ready inside, and gone afterwards.

    `settings` are environment variables for all processes, such as TRUNKLINE_LEADER_TRY_SECONDS. Tests do without a
    `durable` database; benchmarks do without simulators that `validate`.
    """

    def __init__(
        self,
        *,
        frontends: int = 1,
        demo: bool = True,
        combined: bool = False,
        durable: bool = False,
        validate: bool = True,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.data = Path()
        self._home = Path()
        self._frontends = frontends
        self._demo = demo
        self._combined = combined
        self._durable = durable
        self._validate = validate
        self._settings = dict(settings or {})
        self._process: asyncio.subprocess.Process | None = None
        self._http: aiohttp.ClientSession | None = None
        self._output = b""

    async def __aenter__(self) -> Self:
        self._home = Path(tempfile.mkdtemp(prefix="trunkline-test-"))
        self._home.chmod(0o711)  # the user of Postgres passes through
        self.data = self._home / "data"
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60))
        try:
            await self.start()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is not None:
            self._show_logs()
        await self.stop()
        if self._http is not None:
            await self._http.close()
        shutil.rmtree(self._home, ignore_errors=True)

    # -- the process itself -----------------------------------------------------------------------------

    async def start(self) -> None:
        """Start `up` (again, on the same data) and wait until everything is ready."""
        run_file = self.data / "run.json"
        run_file.unlink(missing_ok=True)  # an `up` that was killed leaves its own
        with (self._home / "up.out").open("ab") as sink:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-P", "-m", "services.cli", "up", *self._options(),
                stdin=asyncio.subprocess.DEVNULL, stdout=sink, stderr=sink, env={**os.environ, **self._settings},
            )  # fmt: skip
        await until(lambda: self._over() or run_file.exists(), within=START_SECONDS)
        assert not self._over(), f"up ended: {self.output}"

    async def stop(self, kind: signal.Signals = signal.SIGTERM) -> int:
        """End `up` and return its exit code; a stopped child is woken, so that nothing is left."""
        process = self._process
        if process is None or process.returncode is not None:
            return process.returncode if process is not None and process.returncode is not None else 0
        for child in self.processes():
            if child.is_running() and child.status() == psutil.STATUS_STOPPED:
                child.resume()
        process.send_signal(kind)
        try:
            async with asyncio.timeout(60):
                return await process.wait()
        except TimeoutError:
            process.kill()
            raise

    @property
    def pid(self) -> int:
        assert self._process is not None, "up has not started"
        return self._process.pid

    @property
    def output(self) -> str:
        """What `up` has printed."""
        return (self._home / "up.out").read_text("utf-8", "replace")

    def log(self, name: str) -> str:
        """What a child has logged: `owner`, `frontend-1`, `simulators` ..."""
        return (self.data / "logs" / f"{name}.log").read_text("utf-8", "replace")

    def processes(self) -> list[psutil.Process]:
        """Everything that `up` has started, add-ons and backends of Postgres included."""
        return list(psutil.Process(self.pid).children(recursive=True))

    # -- what runs --------------------------------------------------------------------------------------

    @property
    def run(self) -> dict[str, Any]:
        """`run.json` as it is now."""
        found: dict[str, Any] = json.loads((self.data / "run.json").read_bytes())
        return found

    def frontend_pids(self) -> list[int]:
        return [entry["pid"] for entry in self.run["frontends"]]

    @property
    def owner_pid(self) -> int:
        return int(self.run["owner"]["pid"])

    @property
    def nats_pid(self) -> int:
        return self._child("nats-server")

    @property
    def postgres_pid(self) -> int:
        return self._child("postgres")

    def addon_pid(self, addon: str) -> int:
        """The process of an add-on under the owner."""
        for child in psutil.Process(self.owner_pid).children():
            if f"services.addons.{addon}" in child.cmdline():
                return int(child.pid)
        raise AssertionError(f"{addon} does not run")

    async def leader(self, shard: int = 0) -> dict[str, Any]:
        """The entry of `run.json` that leads a shard; waits until one does."""
        async with asyncio.timeout(30):
            while True:
                holder = await self.fetchval(
                    "SELECT holder FROM leases WHERE name = 'leader' AND shard = $1 AND NOT released", shard
                )
                for entry in self.run["frontends"]:
                    if entry["id"] == holder:
                        return dict(entry)
                await asyncio.sleep(0.02)

    async def written(self, act: Callable[[], None], *, within: float = 30.0) -> dict[str, Any]:
        """Do `act`, and wait until `run.json` was written after it: all parts are ready again."""
        run_file = self.data / "run.json"
        before = run_file.stat().st_mtime_ns
        act()
        await until(lambda: run_file.stat().st_mtime_ns != before, within=within)
        return self.run

    @staticmethod
    def kill(pid: int, kind: signal.Signals = signal.SIGKILL) -> None:
        os.kill(pid, kind)

    # -- asking -----------------------------------------------------------------------------------------

    @property
    def sim(self) -> People:
        return self.people(self.run["demo"]["telegram_bot"])

    def people(self, bot: str) -> People:
        """People who write to a bot, by its token."""
        assert self._http is not None, "the cluster has not started"
        return People(self._http, self.run["simulators"]["url"], bot)

    async def api(
        self, method: str, path: str, *, json: Any = None, frontend: int = 0, key: str | None = None
    ) -> tuple[int, Any]:
        """Status and JSON body of an API call to a frontend, as the administrator unless `key` says otherwise."""
        assert self._http is not None, "the cluster has not started"
        run = self.run
        headers = {"Authorization": f"Bearer {run['api_key'] if key is None else key}"}
        url = run["frontends"][frontend]["url"] + path
        async with self._http.request(method, url, json=json, headers=headers) as response:
            body = await response.read()
            return response.status, json_of(body)

    async def text(self, path: str, *, frontend: int = 0) -> str:
        """What a frontend answers as plain text, such as its metrics."""
        assert self._http is not None, "the cluster has not started"
        async with self._http.get(self.run["frontends"][frontend]["url"] + path) as response:
            return await response.text()

    async def fetch(self, query: str, *args: Any) -> list[Any]:
        """Rows from the cluster's database."""
        connection = await asyncpg.connect(self.run["postgres"]["dsn"])
        try:
            rows: list[Any] = await connection.fetch(query, *args)
            return rows
        finally:
            await connection.close()

    async def fetchval(self, query: str, *args: Any) -> Any:
        rows = await self.fetch(query, *args)
        return rows[0][0] if rows else None

    # -- inside -----------------------------------------------------------------------------------------

    def _options(self) -> list[str]:
        options = [
            "--data",
            str(self.data),
            "--port",
            "0",
            "--frontends",
            str(self._frontends),
        ]
        if not self._durable:
            options.append("--fast-database")
        if self._combined:
            options.append("--combined")
        if self._demo:
            contracts = Path(os.environ.get("TRUNKLINE_SPEC") or SPEC) / "contracts"
            options += [
                "--demo",
                *(
                    ["--contracts", str(contracts)]
                    if self._validate and contracts.exists()
                    else ["--no-validate"]
                ),
            ]
        return options

    def _over(self) -> bool:
        return self._process is None or self._process.returncode is not None

    def _child(self, program: str) -> int:
        for child in psutil.Process(self.pid).children():
            if child.name() == program:
                return int(child.pid)
        raise AssertionError(f"{program} does not run")

    def _show_logs(self) -> None:
        """What pytest shows with the failure."""
        for path in sorted(self.data.glob("logs/*.log")):
            print(f"--- {path.name}\n{path.read_text('utf-8', 'replace')[-3000:]}")


def json_of(body: bytes) -> Any:
    """The body as JSON; None for one that is empty or none."""
    try:
        return json.loads(body)
    except ValueError:
        return None
