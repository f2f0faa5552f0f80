"""Load for the pipeline: people who write to bots of the simulator, and what becomes visible to them."""

import asyncio
import contextlib
import json
import statistics
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp

from shared.lifecycle import Tasks


def token(bot: int) -> str:
    """The token of a simulated bot."""
    return f"{bot}:AAbenchmark{bot}AAbenchmarkAAbenchmark"


@dataclass(slots=True)
class Round:
    """What one round measured. `delays` are seconds from the accepted event to the visible final text."""

    answered: int = 0
    seconds: float = 0.0
    delays: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.answered / self.seconds if self.seconds else 0.0

    def percentile(self, share: float) -> float:
        if len(self.delays) < 2:
            return float("nan")
        return statistics.quantiles(self.delays, n=1000, method="inclusive")[round(share * 1000) - 1]


#: what begins a text that somebody waits for; other changes are not worth a look
ANSWERS = (b"You said: ", b"starts a new chat")


class People:
    """`people` persons, spread over `bots` bots beginning with number `first`; each waits for its answer.

    `chats` are their places, as (bot, chat); one message at a time may be in flight in each.
    """

    def __init__(self, address: str, *, first: int, bots: int, people: int) -> None:
        self._address = address
        self.chats = [(first + n % bots, 100_000 + first * 1000 + n) for n in range(people)]
        self._waiting: dict[tuple[int, int], tuple[str, asyncio.Future[float]]] = {}
        self._count = 0
        self._tasks = Tasks("people")
        self._session: aiohttp.ClientSession | None = None

    @contextlib.asynccontextmanager
    async def present(self) -> AsyncIterator[None]:
        """Listens to what becomes visible."""
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
            self._session = session
            self._tasks = Tasks("people")
            listening = asyncio.Event()
            self._tasks.run("listen", self._listen(listening))
            await listening.wait()
            try:
                yield
            finally:
                await self._tasks.stop()

    async def _listen(self, listening: asyncio.Event) -> None:
        assert self._session is not None
        async with self._session.get(f"{self._address}/_sim/events") as response:
            async for line in response.content:
                listening.set()
                if line.startswith(b"data:") and any(answer in line for answer in ANSWERS):
                    self._seen(json.loads(line[5:]))

    def _seen(self, change: dict[str, object]) -> None:
        message = change.get("message")
        if not isinstance(message, dict) or not message.get("from_bot"):
            return
        key = (int(str(change["bot"])), int(str(change["chat"])))
        expected = self._waiting.get(key)
        if expected and message["text"] == expected[0] and not expected[1].done():
            expected[1].set_result(time.perf_counter())

    async def say(self, bot: int, chat: int, limit: float) -> float | None:
        """Write once and wait for the whole answer; the delay, or None when none came within `limit`."""
        self._count += 1
        return await self.ask(bot, chat, f"m{self._count}", f"You said: m{self._count}", limit)

    async def ask(self, bot: int, chat: int, text: str, answer: str, limit: float) -> float | None:
        """The same with a text of one's own, and the answer that it has to get."""
        assert self._session is not None
        answered: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting[bot, chat] = (answer, answered)
        event = {"bot": token(bot), "chat": chat, "from": {"id": chat, "first_name": "P"}, "text": text}
        async with self._session.post(f"{self._address}/_sim/telegram/events", json=event) as response:
            response.raise_for_status()
        accepted = time.perf_counter()
        try:
            return max(0.0, await asyncio.wait_for(answered, limit) - accepted)
        except TimeoutError:
            return None

    async def saturate(self, seconds: float) -> Round:
        """Everybody writes again as soon as the answer is there; answers inside the window count."""
        result = Round()
        end = time.perf_counter() + seconds

        async def person(bot: int, chat: int) -> None:
            while time.perf_counter() < end:
                if await self.say(bot, chat, 60.0) is not None and time.perf_counter() <= end:
                    result.answered += 1

        began = time.perf_counter()
        await asyncio.gather(*(person(bot, chat) for bot, chat in self.chats))
        result.seconds = min(seconds, time.perf_counter() - began)
        return result

    async def steady(self, rate: float, seconds: float) -> Round:
        """`rate` messages a second, each from another person, whatever the answers do."""
        result = Round()
        began = time.perf_counter()

        async def one(bot: int, chat: int) -> None:
            delay = await self.say(bot, chat, 30.0)
            if delay is not None:
                result.answered += 1
                result.delays.append(delay)

        pending = []
        for n in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, began + n / rate - time.perf_counter()))
            pending.append(self._tasks.run("one", one(*self.chats[n % len(self.chats)])))
        await asyncio.gather(*pending)
        result.seconds = time.perf_counter() - began
        return result
