"""A frontend in this process, with a real owner behind it or a scripted one, and a client that calls it."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from services.frontend.app import Frontend
from services.owner.app import Owner
from shared.carrier import Call, Handlers
from shared.carrier import operations as ops
from shared.carrier.direct import DirectCarrier
from shared.config import Settings
from shared.config.sections import Database as DatabaseSettings
from shared.config.sections import Frontend as FrontendSettings
from shared.config.sections import Http, Leader, Model, Nats, Poll, Turns
from shared.config.sections import Owner as OwnerSettings
from shared.domain.errors import Failure, OwnerUnready
from shared.sdk.manifest import Kind, Option
from shared.sdk.ops import Me
from shared.store import Database, people, sessions
from tests.support.described import check_answer

#: a token in the shape of a real one, that searches of answers and logs look for
MARKED_TOKEN = "12345678:MARKED-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"


def settings_for(url: str, *, model: str = "", nats: str = "", **owner: Any) -> Settings:
    """Settings for a test: small times, free ports, its own database."""
    return Settings(
        database=DatabaseSettings(url=url, pool_size=6),
        nats=Nats(url=nats),
        http=Http(port=0),
        frontend=FrontendSettings(grace_seconds=1.0),
        model=Model(url=model, connect_retries=0),
        owner=OwnerSettings(**owner),
        leader=Leader(try_seconds=0.05),
        poll=Poll(wait_seconds=1.0),
        turns=Turns(sweep_seconds=0.1),
    )


class Client:
    """Calls a frontend; with a key as its owner. Every answer is held against the description of the API.

    `seen` keeps them all, for searches.
    """

    def __init__(self, http: aiohttp.ClientSession, base: str, key: str = "") -> None:
        self.http = http
        self.base = base
        self.key = key
        self.seen: list[str] = []

    async def call(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Status and body of an answer."""
        sent = dict(headers or {})
        if self.key:
            sent.setdefault("Authorization", f"Bearer {self.key}")
        data = None
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
            data = io.BytesIO(body if isinstance(body, bytes) else msgspec.json.encode(body))
        async with self.http.request(method, self.base + path, data=data, headers=sent) as response:
            text = await response.text()
            self.seen += [text, str(response.headers)]
            answer = msgspec.json.decode(text) if text.startswith(("{", "[")) else text
            check_answer(method, path, response.status, answer)
            return response.status, answer

    async def get(self, path: str) -> Any:
        return await self._expect(200, "GET", path, None)

    async def post(self, path: str, body: Any = None, *, status: int = 200) -> Any:
        return await self._expect(status, "POST", path, body)

    async def put(self, path: str, body: Any, *, status: int = 200) -> Any:
        return await self._expect(status, "PUT", path, body)

    async def delete(self, path: str, *, status: int = 204) -> Any:
        return await self._expect(status, "DELETE", path, None)

    async def refused(self, status: int, method: str, path: str, body: Any = None) -> Any:
        """The error of a request that is refused with this status."""
        return (await self._expect(status, method, path, body))["error"]

    async def _expect(self, status: int, method: str, path: str, body: Any) -> Any:
        got, answer = await self.call(method, path, body)
        assert got == status, (got, answer)
        return answer


@dataclass
class Running:
    """A started frontend and the database behind it."""

    frontend: Frontend
    database: Database
    http: aiohttp.ClientSession
    admin: Client

    def client(self, key: str = "") -> Client:
        return Client(self.http, self.frontend.url, key)

    async def person(self, name: str, *features: str, role: str = "user") -> Client:
        """A new user with these features, with an API key."""
        return self.client(await key_of(self.database, name, *features, role=role))


async def key_of(database: Database, name: str, *features: str, role: str = "user") -> str:
    user_id = await people.add(database, name=name, role=role, password_hash=None, features=features)
    return (await sessions.add_key(database, user_id, "test"))[1]


@asynccontextmanager
async def running_frontend(
    settings: Settings, carrier: DirectCarrier, database: Database
) -> AsyncIterator[Running]:
    """One frontend, and an administrator called `root` who calls it."""
    frontend = Frontend(settings, carrier)
    await frontend.start()
    try:
        root = await people.named(database, "root")
        key = "" if root else await key_of(database, "root", role="admin")
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
            yield Running(frontend, database, http, Client(http, frontend.url, key))
    finally:
        await frontend.stop()


@asynccontextmanager
async def with_owner(
    settings: Settings, root: Path, **owner: Any
) -> AsyncIterator[tuple[Owner, DirectCarrier]]:
    """A real owner on this folder, and the carrier that leads to it."""
    settings = replace(settings, owner=replace(settings.owner, root=str(root), **owner))
    made = Owner(settings)
    await made.start()
    try:
        yield made, DirectCarrier(made.handlers, authorize=made.authority)
    finally:
        await made.stop()


@dataclass
class ScriptedOwner:
    """An owner whose answers a test sets: what runs, whose the tokens are, and what fails how."""

    kinds: list[Kind] = field(
        default_factory=lambda: [
            Kind(
                id="telegram",
                title="Telegram",
                delivery="pull",
                setup="a bot token from @BotFather",
                options=(Option("threads", "Threads", ("own", "any")),),
            ),
            Kind(id="notes", title="Notes", delivery="pull", tool_only=True),
        ]
    )
    #: operation name -> what it raises
    fails: dict[str, Failure] = field(default_factory=dict)
    #: what a token check answers; by default the account before the colon of any token
    me: Me = field(default_factory=lambda: Me("12345678", "Support Bot", "support_bot"))
    asked: list[tuple[str, msgspec.Struct, str]] = field(default_factory=list)

    def carrier(self) -> DirectCarrier:
        handlers = Handlers()
        handlers.on(ops.RUNNING, self._running)
        handlers.on(ops.VERIFY, self._me)
        handlers.on(ops.TEST, self._me)
        handlers.on(ops.POLL, self._poll)
        handlers.on(ops.ANNOUNCE, self._announce)
        return DirectCarrier(handlers, authorize=_allow_all, stop_grace=0.0)

    def named(self, operation: str) -> list[msgspec.Struct]:
        return [request for name, request, _ in self.asked if name == operation]

    async def _running(self, request: ops.Nothing, call: Call) -> ops.Running:
        self._note("running", request, call)
        return ops.Running([ops.RunningAddon("telegram", "1.0.0", "Telegram", tuple(self.kinds))])

    async def _me(self, request: ops.Verify | ops.Test, call: Call) -> Me:
        self._note("verify" if isinstance(request, ops.Verify) else "test", request, call)
        return self.me

    async def _poll(self, request: ops.Poll, call: Call) -> Any:
        raise self.fails.get("poll") or _away()

    async def _announce(self, request: ops.Announce, call: Call) -> ops.Nothing:
        raise _away()

    def _note(self, name: str, request: msgspec.Struct, call: Call) -> None:
        self.asked.append((name, request, call.actor))
        if name in self.fails:
            raise self.fails[name]


async def _allow_all(operation: object, call: Call) -> None:
    """The scripted owner judges nobody."""


def _away() -> Failure:
    return OwnerUnready("the owner of this test leads nobody")
