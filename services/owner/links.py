"""Stores what add-ons say of the links that they keep themselves, in the place where a leader notes its polls."""

import time
from collections.abc import Callable, Mapping

from shared.lifecycle import Tasks
from shared.store import Database, liveness
from shared.store.repeat import repeat

#: seconds between two times that what was heard is stored
NOTE_SECONDS = 5.0
#: add-on -> binding -> when anything was last heard on its link, in monotonic seconds
Heard = Mapping[str, Mapping[str, float]]


class LinkBook:
    """A Service; `heard` answers with what the running add-ons said last."""

    def __init__(
        self,
        database: Database,
        heard: Callable[[], Heard],
        *,
        note_seconds: float = NOTE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._heard = heard
        self._note_seconds = note_seconds
        self._clock = clock
        self._written: dict[tuple[str, str], float] = {}
        self._tasks = Tasks("links")

    async def start(self) -> None:
        self._tasks = Tasks("links")
        self._tasks.run("write", repeat("links", self._note_seconds, self._write))

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _write(self) -> None:
        """One statement for each add-on that heard something since the last one."""
        written: dict[tuple[str, str], float] = {}
        now = self._clock()
        for addon, links in self._heard().items():
            new = {id_: now - at for id_, at in links.items() if self._written.get((addon, id_)) != at}
            stored = await liveness.heard(self._database, addon, new) if new else []
            kept = links.keys() - (new.keys() - set(stored))
            written.update({(addon, id_): links[id_] for id_ in kept})
        self._written = written
