"""Started simulators and a small client for them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from services.simulators import Simulators
from tests.support.spec import spec_path

ADA = {"id": 5001, "first_name": "Ada"}
BOB = {"id": 5002, "first_name": "Bob"}
TOKEN = "111:secret-of-the-first-bot"


class Clock:
    """Seconds since 1970, moved by hand."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class Sim:
    """Talks to running simulators as a bot (`tg`) and as a test (`post`, `get`, `delete`)."""

    def __init__(self, url: str, clock: Clock, http: aiohttp.ClientSession) -> None:
        self.url = url
        self.clock = clock
        self.http = http

    async def tg(self, method: str, token: str = TOKEN, **params: Any) -> tuple[int, Any]:
        """Status and body of a Bot API call with a JSON body."""
        async with self.http.post(f"{self.url}/bot{token}/{method}", json=params) as response:
            return response.status, await response.json()

    async def result(self, method: str, token: str = TOKEN, **params: Any) -> Any:
        status, body = await self.tg(method, token, **params)
        assert status == 200, body
        return body["result"]

    async def refusal(self, method: str, token: str = TOKEN, **params: Any) -> Any:
        """The description of a call that is refused."""
        status, body = await self.tg(method, token, **params)
        assert status == body["error_code"] != 200
        return body["description"]

    async def says(self, text: str, *, token: str = TOKEN, chat: int = 5001, **more: Any) -> int:
        """A person writes; returns the update ID."""
        body = {"bot": token, "chat": chat, "from": ADA, "text": text, **more}
        status, answer = await self.post("telegram/events", body)
        assert status == 200, answer
        return int(answer["event"])

    async def shown(self, chat: int = 5001, **query: Any) -> list[Any]:
        """The visible messages of a chat."""
        page = await self.get("telegram/messages", chat=chat, **query)
        return list(page["messages"])

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        async with self.http.post(f"{self.url}/_sim/{path}", json=body) as response:
            return response.status, await response.json()

    async def get(self, path: str, **query: Any) -> Any:
        async with self.http.get(f"{self.url}/_sim/{path}", params=query) as response:
            return await response.json()

    async def delete(self, path: str) -> Any:
        async with self.http.delete(f"{self.url}/_sim/{path}") as response:
            return await response.json()


@asynccontextmanager
async def running(*, validate: bool = True, **options: Any) -> AsyncIterator[Sim]:
    """Simulators on a free port, validating against the written contracts unless told otherwise."""
    clock = Clock()
    contracts = spec_path("contracts") if validate else None
    simulators = Simulators(validate=validate, contracts=contracts, clock=clock, **options)
    await simulators.start()
    try:
        async with aiohttp.ClientSession() as http:
            yield Sim(simulators.url, clock, http)
    finally:
        await simulators.stop()
