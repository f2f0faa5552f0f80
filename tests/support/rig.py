"""The whole path of a message in one process: Postgres, simulators, one owner with real add-ons, frontends.

Each frontend reaches the database through a relay of its own, so that a test can partition it, and the owner through
a direct carrier. Bots, chats and scripted words are made per test, so that many tests share one rig.
"""

import dataclasses
import itertools
import json
import os
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, Unpack
from urllib.parse import urlsplit

import aiohttp
import msgspec

from services.frontend.app import Frontend
from services.owner.app import Owner
from services.simulators import Simulators
from shared.bus import subjects
from shared.carrier import DirectCarrier
from shared.carrier.calls import Options
from shared.carrier.operation import Operation
from shared.config import Settings
from shared.config.sections import Database as DatabaseSettings
from shared.sdk.client import AddonClient
from shared.sealing import KeyRing
from shared.store import Database
from shared.store.bindings import token_record
from shared.store.open import key_ring
from shared.store.sessions import hash_of
from tests.support.proxy import Relay
from tests.support.simulation import Clock, Sim
from tests.support.spec import spec_path
from tests.support.until import until_answer

_numbers = itertools.count(1)
Req = TypeVar("Req", bound=msgspec.Struct)
Rep = TypeVar("Rep", bound=msgspec.Struct)

#: every wait of the cluster, short enough for tests and long enough for a busy machine
QUICK: dict[str, dict[str, Any]] = {
    "http": {"port": 0},
    "leader": {"try_seconds": 0.05, "renew_seconds": 0.2, "trust_seconds": 1.0, "takeover_seconds": 1.5},
    "poll": {"wait_seconds": 2.0, "backoff_seconds": 0.5},
    "turns": {"renew_seconds": 0.2, "lease_seconds": 1.5, "watch_seconds": 0.1, "sweep_seconds": 0.3},
    "delivery": {"sweep_seconds": 0.3, "retry_seconds": 0.05, "retry_most_seconds": 0.5, "call_seconds": 4.0},
    "limits": {"sender_per_minute": 1000},
}


@dataclass(frozen=True, slots=True)
class Bot:
    """A binding with its agent and owner, and the token under which the simulator knows it."""

    token: str
    binding: str
    agent: str
    user: str

    @property
    def handle(self) -> str:
        """The public name that the simulator gives to a bot, by which a group addresses it."""
        return f"sim{self.token.partition(':')[0]}_bot"


@dataclass(slots=True)
class Replica:
    """One frontend and its own way to the database."""

    frontend: Frontend
    relay: Relay

    @property
    def id(self) -> str:
        return self.frontend.id


class _Listening(DirectCarrier):
    """Notes name and encoded request of every call that frontends make."""

    def __init__(self, *given: Any, heard: list[tuple[str, bytes]], **options: Any) -> None:
        super().__init__(*given, **options)
        self._heard = heard

    async def call(self, op: Operation[Req, Rep], request: Req, /, **options: Unpack[Options]) -> Rep:
        self._heard.append((op.name, msgspec.json.encode(request)))
        return await super().call(op, request, **options)


class Rig:
    """Use through `rig(...)`. `changes` are settings by section on top of `QUICK`."""

    def __init__(self, url: str, folder: Path, sim: Sim, changes: Mapping[str, Mapping[str, Any]]) -> None:
        self.sim = sim
        self.folder = folder
        self.replicas: list[Replica] = []
        self.heard: list[tuple[str, bytes]] = []
        self.database = Database(DatabaseSettings(url=url, pool_size=4), name="rig")
        self.settings = _settings(url, folder, sim.url, changes)
        self.owner_relay = self._relay()
        self._ring: KeyRing | None = None

    async def start(self, frontends: int, *, owner: bool) -> None:
        """Start everything; without `owner` that one is only made, as it is before its start is over."""
        await self.database.start()
        await self.owner_relay.start()
        self.owner = Owner(self._through(self.owner_relay))
        self.carrier = DirectCarrier(self.owner.handlers, authorize=self.owner.authority)
        await self.carrier.start()
        if owner:
            await self.owner.start()
        self._ring = await key_ring(self.settings.sealing, self.database)
        for _ in range(frontends):
            await self.add_frontend()

    async def stop(self) -> None:
        for replica in list(self.replicas):
            await self.stop_frontend(replica)
        self.owner_relay.refusing = False
        self.owner_relay.thaw()
        await self.owner.stop()
        await self.carrier.stop()
        await self.owner_relay.stop()
        await self.database.stop()

    def _relay(self) -> Relay:
        port = urlsplit(self.settings.database.url).port
        assert port is not None
        return Relay(port)

    def _through(self, relay: Relay) -> Settings:
        """The settings with the database behind a relay."""
        at = urlsplit(self.settings.database.url)
        url = at._replace(netloc=at.netloc.replace(f":{relay.target}", f":{relay.port}")).geturl()
        return changed(self.settings, {"database": {"url": url}})

    # -- the owner --------------------------------------------------------------------------------------

    def addon(self, addon: str) -> AddonClient:
        """The owner's client of a running add-on, over which a test steers the probe."""
        return self.owner._supervisor.get(addon).client

    def addon_pids(self, addon: str) -> list[int]:
        """The processes of an add-on of this rig."""
        data = f"TRUNKLINE_ADDON_DATA={self.folder / 'addons' / 'data' / addon}"
        return [pid for pid in _children() if data in _environment(pid)]

    # -- frontends --------------------------------------------------------------------------------------

    async def add_frontend(self, **changes: Mapping[str, Any]) -> Replica:
        relay = self._relay()
        await relay.start()
        settings = changed(self._through(relay), changes)
        carrier = _Listening(self.owner.handlers, authorize=self.owner.authority, heard=self.heard)
        frontend = Frontend(settings, carrier, self.owner.bus)
        await frontend.start()
        replica = Replica(frontend, relay)
        self.replicas.append(replica)
        return replica

    async def stop_frontend(self, replica: Replica) -> None:
        """A graceful stop."""
        replica.relay.refusing = False
        replica.relay.thaw()
        self.replicas.remove(replica)
        await replica.frontend.stop()
        await replica.relay.stop()

    async def leader(self) -> Replica:
        """The replica that leads shard 0."""
        holder = await self.eventually(
            "SELECT holder FROM leases WHERE name = 'leader' AND NOT released AND holder = ANY($1)",
            [replica.id for replica in self.replicas],
        )
        return next(replica for replica in self.replicas if replica.id == holder)

    # -- people, agents, bots ---------------------------------------------------------------------------

    async def bot(
        self,
        *,
        accept_any: bool = True,
        allow: Sequence[str] = (),
        reply_mode: str = "progress",
        conversation: str = "sender",
        addons: Sequence[str] = (),
        tools: bool = True,
        kind: str = "telegram",
    ) -> Bot:
        """A new bot of a new user, switched on."""
        n = next(_numbers)
        bot = Bot(f"{70000 + n}:marked-secret-{n:06d}", f"bnd_{n}", f"agt_{n}", f"usr_{n}")
        run = self.database.execute
        await run("INSERT INTO users (id, name, role) VALUES ($1, $1, 'admin')", bot.user)
        await run(
            "INSERT INTO agents (id, user_id, name, model, instructions, tools, addons) "
            "VALUES ($1, $2, 'Sam', 'sim-large', 'Be kind', $3, $4)",
            bot.agent,
            bot.user,
            tools,
            list(addons),
        )
        await run(
            "INSERT INTO bindings (id, user_id, agent_id, kind, addon, name, allow, accept_any, reply_mode, "
            "conversation) VALUES ($1, $2, $3, $8, $8, 'Bot', $4, $5, $6, $7)",
            bot.binding,
            bot.user,
            bot.agent,
            list(allow),
            accept_any,
            reply_mode,
            conversation,
            kind,
        )
        await run("INSERT INTO binding_cursor (binding_id) VALUES ($1)", bot.binding)
        await self.save_token(bot, bot.token)
        await self.switch(bot, on=True)
        return bot

    async def save_token(self, bot: Bot, token: str) -> None:
        """Seal a token into the binding's record, as a save does."""
        await self.database.execute(
            "INSERT INTO binding_secrets (binding_id, name, sealed) VALUES ($1, 'token', $2) "
            "ON CONFLICT (binding_id, name) DO UPDATE SET sealed = $2",
            bot.binding,
            self.sealed(bot, token),
        )
        await self.touch(bot)

    def sealed(self, bot: Bot, token: str) -> str:
        assert self._ring is not None
        return self._ring.seal(token, record=token_record(bot.binding))

    async def switch(self, bot: Bot, *, on: bool) -> None:
        await self.touch(bot, "enabled = $2, off_reason = ''", on)

    async def touch(self, bot: Bot, change: str = "updated_at = now()", *values: Any) -> None:
        """Change a binding as the API does: a new revision, and a signal."""
        await self.database.execute(
            f"UPDATE bindings SET revision = revision + 1, {change} WHERE id = $1",
            bot.binding,
            *values,
        )
        self.owner.bus.publish(subjects.BINDING_CHANGED, subjects.BindingChanged(), key=bot.binding)

    # -- what people do and see -------------------------------------------------------------------------

    async def says(self, bot: Bot, chat: int, text: str, **more: Any) -> int:
        """A person writes; `sender` is their ID, by default that of the private chat."""
        sender = more.pop("sender", chat if chat > 0 else 5001)
        person = {"id": sender, "first_name": f"Person {sender}", **more.pop("person", {})}
        return await self.sim.says(text, token=bot.token, chat=chat, **{"from": person}, **more)

    async def answer(self, bot: Bot, chat: int, containing: str, *, within: float = 8.0) -> dict[str, Any]:
        """The first message of the bot that shows a text."""
        page = await self.sim.get(
            "telegram/messages", chat=chat, bot=bot.token, wait_text=containing, timeout=within
        )
        assert page["found"], f"nothing shows {containing!r}: {page['messages']}"
        return next(m for m in page["messages"] if m["from_bot"] and containing in m["text"])

    async def visible(self, bot: Bot, chat: int) -> list[str]:
        """The texts of the bot's messages that a chat shows, in order."""
        shown = await self.sim.shown(chat, bot=bot.token)
        return [m["text"] for m in shown if m["from_bot"] and not m["deleted"]]

    async def script(self, contains: str, *steps: Mapping[str, Any], **more: Any) -> None:
        """What the model replies to messages that contain a text."""
        body = {"match": {"contains": contains}, "steps": list(steps), **more}
        status, answer = await self.sim.post("model/script", body)
        assert status == 200, answer

    async def fault(self, bot: Bot, method: str, platform: str = "telegram", **fault: Any) -> None:
        """What happens to the next calls of a method for this bot."""
        status, answer = await self.sim.post(
            f"{platform}/faults", {"method": method, "bot": bot.token, **fault}
        )
        assert status == 200, answer

    async def calls(self, bot: Bot, *methods: str) -> list[dict[str, Any]]:
        """The calls of a bot, of some methods or of all, in order."""
        page = await self.sim.get("telegram/calls", since=0)
        ours = [call for call in page["calls"] if str(call.get("bot")) == bot.token.partition(":")[0]]
        return [call for call in ours if not methods or call["method"] in methods]

    async def requests(self, containing: str) -> list[dict[str, Any]]:
        """The model requests whose messages hold a text."""
        page = await self.sim.get("model/calls", since=0)
        return [
            call for call in page["calls"] if containing in json.dumps(call["params"].get("messages", []))
        ]

    async def kinds(self, bot: Bot) -> tuple[int, Any]:
        """What the API answers the bot's owner who asks for the kinds of connections."""
        return await self.api(bot, "GET", "kinds")

    async def api(self, bot: Bot, method: str, path: str) -> tuple[int, Any]:
        """Status and body of a call of the bot's owner below the connections."""
        return await self.asks(bot, method, f"chats/connectors/{path}")

    async def asks(self, bot: Bot, method: str, path: str) -> tuple[int, Any]:
        """Status and body of a call of the bot's owner below `/api`."""
        key = f"key-of-{bot.user}"
        await self.database.execute(
            "INSERT INTO api_keys (id, user_id, name, key_hash) VALUES ($1, $2, 'test', $3) ON CONFLICT DO NOTHING",
            key,
            bot.user,
            hash_of(key),
        )
        url = f"{self.replicas[0].frontend.url}/api/{path}"
        headers = {"Authorization": f"Bearer {key}"}
        async with self.sim.http.request(method, url, headers=headers) as response:
            return response.status, await response.json()

    async def eventually(self, query: str, *args: Any, within: float = 8.0) -> Any:
        """The value of a query, once it is true."""
        return await until_answer(lambda: self.database.fetchval(query, *args), within=within)


def changed(settings: Settings, changes: Mapping[str, Mapping[str, Any]]) -> Settings:
    """Settings with other values in some sections."""
    sections = {
        name: dataclasses.replace(getattr(settings, name), **values) for name, values in changes.items()
    }
    return dataclasses.replace(settings, **sections)


def _settings(url: str, folder: Path, simulators: str, changes: Mapping[str, Mapping[str, Any]]) -> Settings:
    base: dict[str, dict[str, Any]] = {
        "database": {"url": url},
        "owner": {
            "root": str(folder / "addons"),
            "preinstalled": "telegram probe",
            "test_addons": True,
            "development_hosts": json.dumps({"telegram_api": simulators}),
        },
        "model": {"url": f"{simulators}/v1"},
    }
    return changed(changed(changed(Settings(), base), QUICK), changes)


def _children() -> list[int]:
    listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    return [int(pid) for pid in listed.split()]


def _environment(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/environ").read_text().split("\0")
    except OSError:
        return []


@asynccontextmanager
async def rig(
    url: str, *, frontends: int = 1, with_owner: bool = True, **changes: Mapping[str, Any]
) -> AsyncIterator[Rig]:
    """A started rig on the database at `url`, which is at the current schema."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trunkline-rig-")))
        simulators = Simulators(validate=True, contracts=spec_path("contracts"))
        await simulators.start()
        stack.push_async_callback(simulators.stop)
        http = await stack.enter_async_context(aiohttp.ClientSession())
        made = Rig(url, folder, Sim(simulators.url, Clock(), http), changes)
        stack.push_async_callback(made.stop)
        await made.start(frontends, owner=with_owner)
        yield made
