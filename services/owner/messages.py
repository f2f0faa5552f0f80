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


class MessageLocks:
    """Locks by (binding, chat, platform message); those nobody uses are forgotten, except doubtful ones."""

    def __init__(self) -> None:
        self._holds: dict[Key, Hold] = {}

    @contextlib.asynccontextmanager
    async def hold(self, key: Key) -> AsyncIterator[Hold]:
        hold = self._holds.setdefault(key, Hold())
        hold.users += 1
        try:
            async with hold.lock:
                yield hold
        finally:
            hold.users -= 1
            if not hold.users and not hold.doubtful:
                self._holds.pop(key, None)
