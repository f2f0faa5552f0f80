"""The queue of updates behind getUpdates and the webhook switch, for one bot."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from services.simulators.calls import compact
from services.simulators.telegram.errors import OTHER_READER, WEBHOOK_ACTIVE, WEBHOOK_SET, conflict

FIRST_UPDATE = 100_001
LONGEST_POLL = 50.0
MOST_UPDATES = 100
RETENTION = 24 * 3600.0
NOT_BY_DEFAULT = frozenset({"chat_member", "message_reaction", "message_reaction_count"})


@dataclass(frozen=True, slots=True)
class _Update:
    id: int
    at: float
    body: bytes


class Updates:
    """Unconfirmed updates, kept for 24 hours; one reader at a time, and none while a webhook is set."""

    def __init__(self, *, clock: Callable[[], float], first: int = 0) -> None:
        self._clock = clock
        self._queue: deque[_Update] = deque()
        self._next = FIRST_UPDATE + first
        self._allowed: frozenset[str] = frozenset()
        self._reader: asyncio.Future[None] | None = None
        self.webhook = ""

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def allowed(self) -> list[str]:
        return sorted(self._allowed)

    def offer(self, kind: str, content: Any) -> int:
        """Queue an update unless the bot does not want its kind; returns its ID either way."""
        number = self._next
        self._next += 1
        if kind in self._allowed or (not self._allowed and kind not in NOT_BY_DEFAULT):
            body = compact(orjson.dumps({"update_id": number, kind: content}))
            self._queue.append(_Update(number, self._clock(), body))
            if self._reader is not None and not self._reader.done():
                self._reader.set_result(None)
        return number

    async def poll(self, params: dict[str, Any]) -> list[orjson.Fragment]:
        """What getUpdates answers; waits up to `timeout` seconds (at most 50) for a first update."""
        if self.webhook:
            raise conflict(WEBHOOK_ACTIVE)
        self._end_reader(OTHER_READER)
        if "allowed_updates" in params:
            self._allowed = frozenset(params["allowed_updates"] or ())
        self._confirm(params.get("offset") or 0)
        timeout = min(float(params.get("timeout") or 0), LONGEST_POLL)
        if not self._queue and timeout > 0:
            await self._wait(timeout)
        limit = max(1, min(params.get("limit") or MOST_UPDATES, MOST_UPDATES))
        return [orjson.Fragment(self._queue[index].body) for index in range(min(limit, len(self._queue)))]

    def set_webhook(self, url: str) -> None:
        self.webhook = url
        if url:
            self._end_reader(WEBHOOK_SET)

    def drop_all(self) -> None:
        self._queue.clear()

    def _end_reader(self, reason: str) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_exception(conflict(reason))
        self._reader = None

    def _confirm(self, offset: int) -> None:
        """A positive offset forgets what is below it, a negative one all but the last -offset updates."""
        oldest = self._clock() - RETENTION
        while self._queue and (self._queue[0].id < offset or self._queue[0].at < oldest):
            self._queue.popleft()
        while offset < 0 and len(self._queue) > -offset:
            self._queue.popleft()

    async def _wait(self, timeout: float) -> None:
        reader: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reader = reader
        try:
            async with asyncio.timeout(timeout):
                await reader
        except TimeoutError:
            pass
        finally:
            if self._reader is reader:
                self._reader = None
