"""One call in flight for a message: a final edit waits for the reply or the deadline of a preview of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

Key = tuple[str, str, str]


@dataclass(slots=True)
class Hold:
    """The turn at one message. `doubtful` stays set while an edit of unknown outcome may still arrive there."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    users: int = 0
    doubtful: bool = False


#: doubtful messages that are remembered; the final edit of each comes soon, or never
MOST_DOUBTFUL = 1000


class MessageLocks:
    """Locks by (binding, chat, platform message); those nobody uses are forgotten, the newest doubtful ones are kept."""

    def __init__(self) -> None:
        self._holds: dict[Key, Hold] = {}
        self._doubtful: dict[Key, Hold] = {}

    @contextlib.asynccontextmanager
    async def hold(self, key: Key) -> AsyncIterator[Hold]:
        hold = self._holds.get(key) or self._doubtful.pop(key, None) or Hold()
        self._holds[key] = hold
        hold.users += 1
        try:
            async with hold.lock:
                yield hold
        finally:
            hold.users -= 1
            if not hold.users:
                del self._holds[key]
                if hold.doubtful:
                    self._remember(key, hold)

    def _remember(self, key: Key, hold: Hold) -> None:
        self._doubtful[key] = hold
        if len(self._doubtful) > MOST_DOUBTFUL:
            del self._doubtful[next(iter(self._doubtful))]
