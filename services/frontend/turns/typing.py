"""Typing in platform chats: at once when a message is taken, and again for as long as its turn lasts."""

import asyncio
import contextlib
from typing import NamedTuple

import structlog

from shared.carrier import Carrier
from shared.carrier import operations as ops
from shared.domain.errors import Failure
from shared.lifecycle import Tasks

log = structlog.get_logger(__name__)

#: seconds after which typing is shown again (ANS-07)
AGAIN_SECONDS = 4.0
#: seconds that the first model request waits for typing to be shown
FIRST_SECONDS = 0.25


class Spot(NamedTuple):
    """Where typing shows."""

    binding_id: str
    chat: str
    thread: str


class Typing:
    """All typing of one frontend. What the platform says to it matters to nobody.

    It begins while a message is being taken, before that is stored: a model request comes after it (ANS-06), and
    should the message not be taken after all, nothing but a moment of typing was seen.
    """

    def __init__(self, carrier: Carrier, tasks: Tasks) -> None:
        self._carrier = carrier
        self._tasks = tasks
        self._latest: dict[Spot, tuple[float, asyncio.Task[None]]] = {}

    def show(self, spot: Spot) -> None:
        """Show it now, without waiting for it."""
        now = asyncio.get_running_loop().time()
        self._latest[spot] = (now, self._tasks.run("typing", self._call(spot)))
        asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._forget, spot, now)

    async def shown(self, spot: Spot) -> None:
        """Wait until the platform has it, but not for long."""
        latest = self._latest.get(spot)
        if latest is not None:
            await asyncio.wait({latest[1]}, timeout=FIRST_SECONDS)

    async def keep(self, spot: Spot) -> None:
        """Show it at once, unless it was just shown, and again until cancelled."""
        now = asyncio.get_running_loop().time
        while True:
            latest = self._latest.get(spot)
            left = latest[0] + AGAIN_SECONDS - now() if latest is not None else 0.0
            if left > 0:
                await asyncio.sleep(left)
            self.show(spot)

    def _forget(self, spot: Spot, began: float) -> None:
        latest = self._latest.get(spot)
        if latest is not None and latest[0] == began:
            del self._latest[spot]

    async def _call(self, spot: Spot) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            try:
                await self._carrier.call(ops.TYPING, ops.Typing(*spot))
            except Failure as failure:
                log.debug("typing_not_shown", code=failure.code)
