"""A cluster that runs for long: does it hold on to memory, does it stall, does anything stay behind?

    python -m benchmarks.soak [--turns 10000] [--chats 200] [--minutes 30]

A real cluster with two frontends and a durable database. The turns are spread evenly over the minutes and the chats;
a chat begins anew with `/new` every 50 turns, connections (to the platform, the database, the bus) are cut every 100
turns, and now and then the platform stumbles. In the first half frontends are killed; each begins a new series.
Resident memory of every process is sampled all the time, and the delay of its event loop is read from its metrics.

Bars, for each process: memory grows by at most 64 MiB after its start-up, at most 32 MiB an hour (in runs of at least
30 minutes), and the p99 of the loop's delay is under 250 ms. Every turn is answered, and at the end nothing waits.
Status 1 when one of them is broken. The simulators are shown and not judged.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress

import uvloop

from benchmarks.bots import SETTINGS, connect
from benchmarks.load import People, Round
from benchmarks.report import Figure, at_most, show
from benchmarks.trouble import Trouble
from benchmarks.watch import Series, Watch
from shared.i18n import say
from shared.lifecycle import Tasks
from tests.support.cluster import Cluster
from tests.support.until import until_answer

BOTS, FIRST = 10, 4000
NEW_EVERY, RECONNECT_EVERY, STUMBLE_EVERY = 50, 100, 37
#: when frontends are killed, as shares of the run; the second half is left for the series of their successors
KILLS = (0.15, 0.3, 0.45)
GROWTH_MIB, SLOPE_MIB, DELAY_MS = 64, 32, 250
#: minutes of a run, and of a series in it, from which a slope means something
LONG_RUN, LONG_SERIES = 30, 10
ANSWER_SECONDS, DRAIN_SECONDS = 60.0, 60.0

QUEUES = {
    "undecided messages": "SELECT count(*) FROM inbound WHERE state = 'new'",
    "open deliveries": "SELECT count(*) FROM deliveries WHERE state IN ('planned', 'sending')",
    "running turns": "SELECT count(*) FROM turns WHERE state = 'running'",
    "waiting chats": "SELECT count(*) FROM chats WHERE last_user_seq > covered_seq OR turn_id IS NOT NULL",
}


async def main(turns: int, chats: int, minutes: float) -> bool:
    """Run, print, and say whether every bar was held."""
    async with Cluster(frontends=2, durable=True, validate=False, settings=SETTINGS) as cluster:
        bots = min(BOTS, chats)
        await connect(cluster, first=FIRST, bots=bots)
        people = People(cluster.run["simulators"]["url"], first=FIRST, bots=bots, people=chats)
        trouble = Trouble(cluster, bots=bots)
        watch = Watch(cluster, seconds=min(5.0, minutes))
        await watch.start()
        soak = Soak(people, trouble, turns=turns, minutes=minutes)
        await soak.run()
        await trouble.over()
        left = await drained(cluster)
        await watch.stop()
    figures = [*of_turns(soak, trouble), *of_queues(left)]
    for series in sorted(watch.series.values(), key=lambda series: (series.name, series.points[0])):
        figures += of_process(series, minutes)
    show(f"Soak: {turns} turns in {chats} chats over {minutes:g} min", figures)
    return not any(figure.met is False for figure in figures)


class Soak:
    """The turns and the trouble, in the order of the clock; a chat has one turn at a time.

    `result` is what became of the turns; `begun` and `refused` count the new chats that were asked for.
    """

    def __init__(self, people: People, trouble: Trouble, *, turns: int, minutes: float) -> None:
        self._people = people
        self._trouble = trouble
        self.turns = turns
        self._seconds = minutes * 60
        # A short run has /new as well.
        self._new_every = min(NEW_EVERY, max(2, turns // len(people.chats) // 3))
        self._said: Counter[tuple[int, int]] = Counter()
        self._free: defaultdict[tuple[int, int], asyncio.Lock] = defaultdict(asyncio.Lock)
        self.result = Round()
        self.begun = self.refused = 0

    async def run(self) -> None:
        tasks, began, pending = Tasks("turns"), time.perf_counter(), []
        kills = {round(share * self.turns) for share in KILLS}
        async with self._people.present():
            for n, place in zip(range(self.turns), self._places(), strict=False):
                await asyncio.sleep(max(0.0, began + n * self._seconds / self.turns - time.perf_counter()))
                pending.append(tasks.run("turn", self._turn(*place)))
                if n in kills:
                    await self._trouble.kill_frontend()
                if n % RECONNECT_EVERY == RECONNECT_EVERY - 1:
                    await self._trouble.reconnect()
                if n % STUMBLE_EVERY == STUMBLE_EVERY - 1:
                    await self._trouble.stumble()
            await asyncio.gather(*pending)
        self.result.seconds = time.perf_counter() - began

    def _places(self) -> Iterator[tuple[int, int]]:
        while True:
            yield from self._people.chats

    async def _turn(self, bot: int, chat: int) -> None:
        place = bot, chat
        async with self._free[place]:
            self._said[place] += 1
            if self._said[place] % self._new_every == 0:
                heard = await self._people.ask(bot, chat, "/new", say("new_chat"), ANSWER_SECONDS)
                self.begun += heard is not None
                self.refused += heard is None
            delay = await self._people.say(bot, chat, ANSWER_SECONDS)
            if delay is not None:
                self.result.answered += 1
                self.result.delays.append(delay)


async def drained(cluster: Cluster) -> dict[str, int]:
    """How much waits in each queue, once nothing does or the time is over."""

    async def counts() -> dict[str, int]:
        return {name: int(await cluster.fetchval(query)) for name, query in QUEUES.items()}

    async def empty() -> bool:
        return not any((await counts()).values())

    with suppress(TimeoutError):
        await until_answer(empty, within=DRAIN_SECONDS)
    return await counts()


def of_turns(soak: Soak, trouble: Trouble) -> list[Figure]:
    result = soak.result
    delays = " / ".join(f"{result.percentile(share):.3f}" for share in (0.5, 0.99))
    happened = ", ".join(f"{count} {name}" for name, count in trouble.count.items())
    unanswered = soak.turns - result.answered
    return [
        Figure("turns a second", f"{result.rate:.1f}"),
        Figure("new chats", str(soak.begun)),
        Figure("what went wrong", happened),
        Figure("delay of an answer p50 / p99", f"{delays} s"),
        Figure("unanswered turns", str(unanswered), "0", unanswered == 0),
        Figure("/new without its answer", str(soak.refused), "0", soak.refused == 0),
    ]


def of_queues(left: dict[str, int]) -> list[Figure]:
    return [Figure(f"{name} at the end", str(count), "0", count == 0) for name, count in left.items()]


def of_process(series: Series, minutes: float) -> list[Figure]:
    """Its memory, and whether it grew or stalled more than it may."""
    name = f"{series.name} ({series.pid})"
    held = [mib for _, mib in series.points]
    figures = [
        Figure(
            f"{name}: memory first, last, most",
            f"{held[0]:.0f}, {held[-1]:.0f}, {max(held):.0f} MiB of {len(held)} samples",
        )
    ]
    if series.name != "simulators" and series.judged:
        figures.append(at_most(f"{name}: grown", series.growth, GROWTH_MIB, "MiB"))
        if minutes >= LONG_RUN and series.minutes >= LONG_SERIES:
            figures.append(at_most(f"{name}: grows in an hour by", series.slope, SLOPE_MIB, "MiB"))
    delay = series.delay(0.99)
    if delay is not None:
        figures.append(at_most(f"{name}: loop delay p99", delay * 1000, DELAY_MS, "ms"))
    return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A cluster that runs for long.")
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--chats", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=30.0)
    options = parser.parse_args()
    sys.exit(0 if uvloop.run(main(options.turns, options.chats, options.minutes)) else 1)
