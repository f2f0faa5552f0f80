"""Which bindings this leader reads: one reader each, begun from a position that the term has claimed."""

import asyncio
import contextlib
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from services.frontend.leader.election import Term
from services.frontend.leader.liveness import Bookkeeper, Link
from services.frontend.leader.reader import Means, Reader
from shared.bus import Bus, subjects
from shared.carrier import Carrier
from shared.carrier import operations as ops
from shared.config.sections import Poll as PollSettings
from shared.domain.errors import CallerFenced, Failure
from shared.lifecycle import Tasks
from shared.store import Database, StoreUnavailable, bindings, cursors
from shared.store.bindings import Pollable

log = structlog.get_logger(__name__)

#: seconds between looks at which bindings there are, besides the signals
RECONCILE_SECONDS = 2.0
#: read positions that one statement claims
CLAIM_BATCH = 1000
#: seconds between two signs of life between leader and owner
TOUCH_SECONDS = 1.0
#: seconds before an owner that did not answer is told again of this leader
ANNOUNCE_PAUSE = 0.25
#: seconds between two times that what is known of the links is stored
NOTE_SECONDS = 1.0


@dataclass(slots=True)
class _Reading:
    binding: Pollable
    task: "asyncio.Task[None]"
    link: Link


class Polling:
    """The leader's duty. A Service that lives as long as its term."""

    def __init__(
        self,
        *,
        database: Database,
        bus: Bus,
        carrier: Carrier,
        settings: PollSettings,
        term: Term,
        on_poll: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._means = Means(database, bus, carrier, settings, term, on_poll, clock)
        self._term = term
        self._books = Bookkeeper(database, term.number, clock)
        self._tasks = Tasks(f"polling-{term.shard}")
        self._readings: dict[str, _Reading] = {}
        self._look = asyncio.Event()
        self._announced = asyncio.Event()

    async def start(self) -> None:
        self._subscription = self._means.bus.subscribe(subjects.BINDING_CHANGED, self._on_changed)
        self._tasks.run("touch", self._keep_in_touch())
        self._tasks.run("reconcile", self._reconcile_for_ever())
        self._tasks.run("liveness", self._write_for_ever())

    async def stop(self) -> None:
        if hasattr(self, "_subscription"):
            self._subscription.cancel()
        await self._tasks.stop()

    async def _on_changed(self, key: str, changed: subjects.BindingChanged) -> None:  # noqa: ARG002
        self._look.set()

    # -- the owner ----------------------------------------------------------------------------------------

    async def _keep_in_touch(self) -> None:
        """Tell the owner of this term, before the first poll and again and again.

        From its answer on it refuses older terms; a new owner learns of it, and a leader whose long polls are silent
        knows that the owner is there.
        """
        while not self._term.lost.is_set():
            announce = ops.Announce(self._term.shard)
            try:
                await self._means.carrier.call(
                    ops.ANNOUNCE, announce, term=self._term.number, deadline=TOUCH_SECONDS
                )
            except CallerFenced:
                self._term.lost.set()
            except Failure as failure:
                log.info("leader_waits_for_the_owner", code=failure.code)
            except Exception:
                log.exception("owner_not_told")
            else:
                self._term.owner_answered()
                self._announced.set()
            await asyncio.sleep(TOUCH_SECONDS if self._announced.is_set() else ANNOUNCE_PAUSE)

    # -- the bindings -------------------------------------------------------------------------------------

    async def _reconcile_for_ever(self) -> None:
        await self._announced.wait()
        while not self._term.lost.is_set():
            self._look.clear()
            await self._look_at_bindings()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), RECONCILE_SECONDS)

    async def _look_at_bindings(self) -> None:
        """Whatever goes wrong here, the next look tries again."""
        try:
            await self._reconcile(await bindings.pollable(self._means.database))
        except CallerFenced:
            self._term.lost.set()
        except StoreUnavailable as problem:
            log.info("polling_waits_for_the_database", problem=str(problem))
        except Exception:
            log.exception("bindings_not_looked_at")

    async def _reconcile(self, wanted: list[Pollable]) -> None:
        """End the readers of what changed or went away, and begin those that are missing.

        A reader that ended while its binding is wanted is begun again, whatever ended it.
        """
        ours = {b.binding_id: b for b in wanted if self._in_shard(b.binding_id)}
        links: dict[str, Link] = {}
        for binding_id, reading in list(self._readings.items()):
            if ours.get(binding_id) != reading.binding or reading.task.done():
                if ours.get(binding_id) == reading.binding:
                    links[binding_id] = reading.link
                reading.task.cancel()
                del self._readings[binding_id]
        missing = [binding for binding_id, binding in ours.items() if binding_id not in self._readings]
        for n in range(0, len(missing), CLAIM_BATCH):
            await self._begin(missing[n : n + CLAIM_BATCH], links)

    async def _begin(self, missing: list[Pollable], links: dict[str, Link]) -> None:
        """Claim the read positions for this term, and poll from what the claim says, from nothing else."""
        if not self._term.trusted:
            raise CallerFenced("the term ended")
        ids = [binding.binding_id for binding in missing]
        claims = await cursors.claim(self._means.database, ids, self._term.number)
        if claims.fenced:
            raise CallerFenced("a newer leader claimed a read position")
        for binding in missing:
            cursor = claims.cursors.get(binding.binding_id)
            if cursor is None:
                continue  # deleted since
            link = links.get(binding.binding_id) or Link()
            reader = Reader(self._means, binding, cursor, link)
            task = self._tasks.run(f"poll {binding.binding_id}", reader.run())
            self._readings[binding.binding_id] = _Reading(binding, task, link)

    async def _write_for_ever(self) -> None:
        """Store what the readers noted of their links; a term that is over writes nothing."""
        while not self._term.lost.is_set():
            await asyncio.sleep(NOTE_SECONDS)
            try:
                if self._term.trusted:
                    await self._books.write({id_: reading.link for id_, reading in self._readings.items()})
            except StoreUnavailable as problem:
                log.info("liveness_waits_for_the_database", problem=str(problem))
            except Exception:
                log.exception("liveness_not_written")

    def _in_shard(self, binding_id: str) -> bool:
        return zlib.crc32(binding_id.encode()) % self._means.settings.shards == self._term.shard
