"""The broadcast limits, enforced on demand: sends and edits draw on one budget of a chat."""

import math
from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from services.simulators.telegram.errors import flood


class Limits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How much a bot may write; the numbers are those of the platform's FAQ."""

    enforce: bool = False
    chat_per_second: int = 1
    group_per_minute: int = 20
    all_per_second: int = 30


class FloodControl:
    """Counts what each bot wrote and refuses what is over the limits; a refused call does not count."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._written: dict[tuple[int, int, float], deque[float]] = {}
        self.limits = Limits()

    def set(self, limits: Limits) -> None:
        self.limits = limits
        self._written.clear()

    def spend(self, bot: int, chat: int) -> None:
        """Count one message or edit; raises the platform's 429 when a window is full."""
        if not self.limits.enforce:
            return
        now = self._clock()
        windows = [
            (self._written.setdefault(key, deque()), seconds, limit)
            for key, seconds, limit in self._windows(bot, chat)
        ]
        waits = [_wait(times, now, seconds, limit) for times, seconds, limit in windows]
        if max(waits) > 0:
            raise flood(math.ceil(max(waits)))
        for times, _, _ in windows:
            times.append(now)

    def _windows(self, bot: int, chat: int) -> Iterator[tuple[tuple[int, int, float], float, int]]:
        yield (bot, chat, 1.0), 1.0, self.limits.chat_per_second
        yield (bot, 0, 1.0), 1.0, self.limits.all_per_second
        if chat < 0:
            yield (bot, chat, 60.0), 60.0, self.limits.group_per_minute


def _wait(times: deque[float], now: float, seconds: float, limit: int) -> float:
    """Seconds until the window has room."""
    while times and times[0] <= now - seconds:
        times.popleft()
    return times[0] + seconds - now if len(times) >= limit else 0.0
