"""Keeps one part of a local cluster running."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from services.cli.local.engine import EngineFailed
from services.cli.problems import Refused
from shared.lifecycle import Tasks

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
#: seconds after which a part that ran well is started again without a pause
STEADY_SECONDS = 5.0


class Kept(Protocol):
    """A Service whose end can be awaited."""

    async def start(self) -> None: ...

    async def wait(self) -> str: ...

    async def stop(self) -> None: ...


#: name, state (starting, ready, down), a sentence
Listener = Callable[[str, str, str], None]


class Keeper:
    """Starts `part`, and again whenever it has ended by itself. A Service; only the first start may fail.

    `on_change` hears of every state.
    """

    def __init__(self, name: str, part: Kept, on_change: Listener) -> None:
        self.name = name
        self.ready = False
        self._part = part
        self._on_change = on_change
        self._tasks = Tasks(f"keeper-{name}")

    async def start(self) -> None:
        """Raises Refused or EngineFailed, which say why."""
        self._on_change(self.name, "starting", "")
        try:
            await self._part.start()
        except (Refused, EngineFailed):
            self._on_change(self.name, "down", "")
            raise
        self._up()
        self._tasks.run("keep", self._keep())

    async def stop(self) -> None:
        await self._tasks.stop()
        self.ready = False
        await self._part.stop()

    async def _keep(self) -> None:
        pause = FIRST_PAUSE
        while True:
            since = time.monotonic()
            how = await self._part.wait()
            if time.monotonic() - since > STEADY_SECONDS:
                pause = FIRST_PAUSE
            self._down(f"{how}; starting it again")
            while not self.ready:
                await asyncio.sleep(pause)
                pause = min(LONGEST_PAUSE, pause * 2)
                try:
                    await self._part.start()
                except (Refused, EngineFailed) as problem:
                    self._down(str(problem))
                else:
                    self._up()

    def _up(self) -> None:
        self.ready = True
        self._on_change(self.name, "ready", "")

    def _down(self, why: str) -> None:
        self.ready = False
        self._on_change(self.name, "down", why)
