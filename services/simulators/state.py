"""What all stand-ins of one server share."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from services.simulators.calls import CallLog
from services.simulators.faults import Faults
from shared.lifecycle import Tasks

Change = dict[str, Any]
"""A visible change: `platform`, `kind` (`message`, `typing`, `draft`), `chat`, and its data."""

READER_BACKLOG = 10_000


class Feed:
    """Visible changes, handed to everyone who reads at that moment; nothing is kept for later."""

    def __init__(self) -> None:
        self._readers: set[asyncio.Queue[Change | None]] = set()

    def __bool__(self) -> bool:
        """Whether anybody reads, so that a change need not be made for nobody."""
        return bool(self._readers)

    @contextmanager
    def reader(self) -> Iterator[asyncio.Queue[Change | None]]:
        """A queue of the changes from now on; None means that this reader was too slow and must start over."""
        queue: asyncio.Queue[Change | None] = asyncio.Queue(READER_BACKLOG)
        self._readers.add(queue)
        try:
            yield queue
        finally:
            self._readers.discard(queue)

    def publish(self, change: Change) -> None:
        for queue in list(self._readers):
            try:
                queue.put_nowait(change)
            except asyncio.QueueFull:
                self._readers.discard(queue)
                queue.get_nowait()
                queue.put_nowait(None)


@dataclass(slots=True)
class Shared:
    """Handed to each stand-in: the clock (seconds since 1970), the feed of changes, and tasks.

    `first` is added to every number it gives out: a real platform never gives one out twice, also after a restart.
    """

    clock: Callable[[], float]
    tasks: Tasks
    feed: Feed = field(default_factory=Feed)
    first: int = 0


@dataclass(slots=True)
class Platform:
    """The part of a stand-in that the control API serves in the same way for each."""

    name: str
    calls: CallLog
    faults: Faults = field(default_factory=Faults)
