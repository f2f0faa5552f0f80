"""What the sender sees while a turn runs: typing, and previews in the working message."""

import asyncio
import contextlib

import structlog

from services.frontend.turns.typing import Spot, Typing
from shared.carrier import Carrier
from shared.carrier import operations as ops
from shared.domain.errors import CallerFenced, Failure
from shared.domain.records import Turn
from shared.i18n import say
from shared.lifecycle import Tasks
from shared.store.requests import Destination

log = structlog.get_logger(__name__)

#: seconds before a failed preview is tried again
PREVIEW_PAUSE = 1.0
#: characters of the end of an answer that a preview shows, and the mark that it goes on (ANS-13)
PREVIEW_CHARS, CURSOR = 1500, "▉"


class Progress:
    """Typing and previews of one turn; `stop` ends both without waiting for what is on its way."""

    def __init__(
        self, tasks: Tasks, carrier: Carrier, typing: Typing, turn: Turn, place: Destination
    ) -> None:
        self._tasks = tasks
        self._typing = typing
        self._carrier = carrier
        self._turn = turn
        self._place = place
        self._tools: list[str] = []
        self._wanted = ""
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        self._spot = Spot(place.binding_id, place.platform_chat, place.thread)
        self._running: list[asyncio.Task[None]] = []

    def start(self) -> None:
        if not self._place.binding_id:
            return
        self._running.append(self._tasks.run("typing", self._typing.keep(self._spot)))
        if self._place.reply_mode != "off":
            self._running.append(self._tasks.run("preview", self._preview()))

    async def typed(self) -> None:
        """Wait until typing was shown, which comes before the first model request (ANS-06), but not for long."""
        if self._running:
            await self._typing.shown(self._spot)

    def stop(self) -> None:
        """No more after this. A call that left is not broken off: its message would be in doubt."""
        self._over.set()
        self._changed.set()
        if self._running:
            self._running[0].cancel()

    def tool_started(self, name: str) -> None:
        """Add a tool to the working message (ANS-11)."""
        self._tools.append(name)
        self._show("\n".join([say("working"), *(f"• {tool}" for tool in self._tools)]))

    def text_grew(self, text: str) -> None:
        """Show the end of the answer so far; only in the mode that streams."""
        if self._place.reply_mode == "stream" and text.strip():
            self._show(text[-PREVIEW_CHARS:] + CURSOR)

    def _show(self, text: str) -> None:
        self._wanted = text
        self._changed.set()

    async def _preview(self) -> None:
        shown = ""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while not self._over.is_set() and self._wanted != shown:
                text = self._wanted
                wait = await self._try_show(text)
                if wait is None:
                    return
                if wait == 0:
                    shown = text
                else:
                    await self._pause(wait)
            if self._over.is_set():
                return

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than the turn lasts."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)

    async def _try_show(self, text: str) -> float | None:
        """Seconds until the next try; 0 when it is shown, None when this turn shows no more."""
        request = ops.Preview(self._place.binding_id, text)
        try:
            answer = await self._carrier.call(
                ops.PREVIEW, request, turn=self._turn.id, epoch=self._turn.epoch
            )
            return 0.0 if answer.shown else max(answer.wait_seconds, 0.05)
        except CallerFenced:
            return None
        except Failure as failure:
            log.debug("preview_not_shown", code=failure.code)
            return PREVIEW_PAUSE
