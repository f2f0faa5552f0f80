"""The log of calls that a stand-in received, bounded in number and in bytes."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

KEEP_CALLS = 200_000
KEEP_BYTES = 256 * 1024 * 1024

UNANSWERED = 0
"""Status of a call whose connection ended before an answer was sent."""


@dataclass(slots=True, eq=False)
class Call:
    """One received call; `status` is None while it is being answered."""

    n: int
    at: float
    method: str
    params: bytes
    bot: int | None = None
    chat: int | None = None
    status: int | None = None

    def as_json(self) -> dict[str, Any]:
        """As the control API shows it; `params` is embedded without being parsed again."""
        entry: dict[str, Any] = {
            "n": self.n,
            "at": self.at,
            "method": self.method,
            "params": orjson.Fragment(self.params),
            "status": self.status,
        }
        if self.bot is not None:
            entry["bot"] = str(self.bot)
        if self.chat is not None:
            entry["chat"] = self.chat
        return entry


def compact(encoded: bytes) -> bytes:
    """A copy that takes no more room than it needs: the encoder's own result keeps its whole buffer."""
    return memoryview(encoded).tobytes()


class CallLog:
    """Calls in the order they were received, numbered from 1; the oldest are forgotten first."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        keep_calls: int = KEEP_CALLS,
        keep_bytes: int = KEEP_BYTES,
    ) -> None:
        self._clock = clock
        self._keep_calls = keep_calls
        self._keep_bytes = keep_bytes
        self._calls: deque[Call] = deque()
        self._bytes = 0
        self._next = 1
        self._waiting: list[tuple[Callable[[Call], bool], asyncio.Future[None]]] = []

    def received(
        self, method: str, params: bytes, *, bot: int | None = None, chat: int | None = None
    ) -> Call:
        call = Call(self._next, self._clock(), method, compact(params), bot, chat)
        self._next += 1
        self._calls.append(call)
        self._bytes += len(params)
        while len(self._calls) > self._keep_calls or (
            self._bytes > self._keep_bytes and len(self._calls) > 1
        ):
            self._bytes -= len(self._calls.popleft().params)
        self._wake(call)
        return call

    def answered(self, call: Call, status: int) -> None:
        call.status = status
        self._wake(call)

    def since(self, n: int) -> list[Call]:
        """Calls numbered `n` and later that are still kept."""
        if not self._calls:
            return []
        return list(islice(self._calls, max(0, n - self._calls[0].n), None))

    def page(self, n: int) -> dict[str, Any]:
        """The answer of the control API: what came since `n`, and the number to ask for next."""
        return {"calls": [call.as_json() for call in self.since(n)], "next": self._next}

    async def wait(self, since: int, matches: Callable[[Call], bool], *, timeout: float) -> bool:
        """Wait until a call numbered `since` or later matches; false when `timeout` seconds passed first."""

        def wanted(call: Call) -> bool:
            return call.n >= since and matches(call)

        if any(wanted(call) for call in self.since(since)):
            return True
        waiter = (wanted, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(timeout):
                await waiter[1]
            return True
        except TimeoutError:
            return False
        finally:
            self._waiting.remove(waiter)

    def _wake(self, call: Call) -> None:
        for wanted, future in self._waiting:
            if not future.done() and wanted(call):
                future.set_result(None)
