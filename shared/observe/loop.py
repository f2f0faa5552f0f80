"""How late the event loop of this process is: what everybody in it waits for, in figures."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from shared.lifecycle import Tasks
from shared.observe import metrics

#: seconds from one tick to the next
TICK = 0.05


class LoopWatch:
    """Ticks at a fixed rate and observes how late each tick is. A Service.

    A tick that a busy loop never came to was late as well: it counts with what it would have waited. So a second in
    which nothing ran weighs as a second, and not as one tick.
    """

    def __init__(
        self,
        observe: Callable[[float], None] = metrics.LOOP_DELAY.observe,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._observe = observe
        self._clock = clock
        self._sleep = sleep
        self._tasks = Tasks("loop")

    async def start(self) -> None:
        self._tasks = Tasks("loop")
        self._tasks.run("watch", self._watch())

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _watch(self) -> None:
        due = self._clock() + TICK
        while True:
            await self._sleep(max(0.0, due - self._clock()))
            while due <= (now := self._clock()):
                self._observe(now - due)
                due += TICK
