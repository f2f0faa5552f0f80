"""Ends of turns, many at a time: the answers are planned and the chats freed in one transaction, both or neither."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from services.frontend.turns import admission
from shared.bus import Bus, subjects
from shared.domain.errors import CallerFenced
from shared.domain.records import Lane, Part, Turn
from shared.lifecycle import Tasks
from shared.lifecycle.batching import Batcher
from shared.lifecycle.points import Point, reached
from shared.observe import metrics
from shared.store import Connection, Database, StoreUnavailable, deliveries, turns
from shared.store.requests import Destination
from shared.store.turns import Closing

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """A turn that has its answer, and where that goes."""

    closing: Closing
    place: Destination
    parts: Sequence[Part]

    @property
    def lane(self) -> Lane | None:
        place = self.place
        return Lane(place.binding_id, place.platform_chat) if place.binding_id else None


@dataclass(frozen=True, slots=True)
class Ended:
    """`following` was begun for messages that came after the turn's last request (MSG-41)."""

    fenced: bool
    following: Turn | None = None


class Closer:
    """Closes turns for one frontend, whose ID is `holder`."""

    def __init__(self, *, database: Database, bus: Bus, holder: str, tasks: Tasks) -> None:
        self._database = database
        self._bus = bus
        self._holder = holder
        self._batches: Batcher[Ending, Ended] = Batcher("close", tasks, self._close_all, largest=50)

    async def close(self, ending: Ending) -> Turn | None:
        """Raises CallerFenced when another frontend has the turn, StoreUnavailable when the outcome is not known."""
        ended = await self._batches.add(ending)
        if ended.fenced:
            raise CallerFenced("this turn has ended or was taken over")
        return ended.following

    async def _close_all(self, endings: Sequence[Ending]) -> Sequence[Ended]:
        try:
            ended = await self._close(endings)
        except StoreUnavailable:
            raise
        except Exception:
            if len(endings) == 1:
                raise
            log.exception("closing_batch_broke", turns=len(endings))
            # Each again by itself; what still breaks goes to the one it belongs to, as a fault of that turn.
            ended = []
            for ending in endings:
                ended += await self._close([ending])
        await reached(Point.DELIVERY_PLANNED)
        self._tell(endings)
        return ended

    async def _close(self, endings: Sequence[Ending]) -> list[Ended]:
        async with self._database.transaction() as connection:
            heads = await turns.close(connection, [e.closing for e in endings])
            closed = [e for e in endings if e.closing.turn.id in heads]
            await deliveries.plan(connection, [(e.lane, part) for e in closed if e.lane for part in e.parts])
            following = {
                e.closing.turn.id: await self._begin_following(connection, heads[e.closing.turn.id], e)
                for e in closed
                if heads[e.closing.turn.id].unread
            }
        return [Ended(e.closing.turn.id not in heads, following.get(e.closing.turn.id)) for e in endings]

    async def _begin_following(self, connection: Connection, head: turns.Head, ending: Ending) -> Turn:
        mode = ending.place.reply_mode
        return await admission.begin(connection, ending.lane, head, holder=self._holder, mode=mode)

    def _tell(self, endings: Sequence[Ending]) -> None:
        for ending in endings:
            metrics.TURNS.labels("failed" if ending.closing.error else "done").inc()
            if ending.lane is not None:
                chats = [ending.lane.platform_chat]
                self._bus.publish(subjects.SEND, subjects.Send(chats=chats), key=ending.lane.binding_id)
            event = subjects.ChatEvent(kind="turn_end")
            self._bus.publish(subjects.CHAT, event, key=ending.closing.turn.chat_id)
