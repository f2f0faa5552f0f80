"""How late a loop is, on a clock that is moved by hand."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from shared.observe.loop import TICK, LoopWatch
from shared.observe.metrics import LOOP_DELAY


class Loop:
    """A clock on which each sleep is longer than asked by the next value of a script."""

    def __init__(self, *extra: float) -> None:
        self.now = 100.0
        self._extra: Iterator[float] = iter(extra)
        self.over = asyncio.Event()

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        late = next(self._extra, None)
        if late is None:
            self.over.set()
            await asyncio.Event().wait()
        else:
            self.now += seconds + late


async def observed(*extra: float) -> list[float]:
    seen: list[float] = []
    await _run(seen.append, *extra)
    return [round(value, 6) for value in seen]


async def _run(observe: Callable[[float], None], *extra: float) -> None:
    loop = Loop(*extra)
    watch = LoopWatch(observe, clock=loop.clock, sleep=loop.sleep)
    await watch.start()
    await asyncio.wait_for(loop.over.wait(), 5)
    await watch.stop()


async def test_each_tick_counts_with_how_late_it_was() -> None:
    assert await observed(0.0, 0.01, 0.02) == [0.0, 0.01, 0.02]


async def test_ticks_that_a_busy_loop_missed_count_as_well() -> None:
    seen = await observed(4 * TICK + 0.001)
    assert seen == pytest.approx([0.201, 0.151, 0.101, 0.051, 0.001])


async def test_a_late_tick_does_not_delay_the_next_one() -> None:
    loop_was_late_once = await observed(0.03, 0.0, 0.0)
    assert loop_was_late_once == [0.03, 0.0, 0.0]


async def test_a_watch_may_start_again_and_stop_twice() -> None:
    watch = LoopWatch(lambda _: None)
    await watch.stop()
    await watch.start()
    await watch.stop()
    await watch.stop()
    await watch.start()
    await watch.stop()


async def test_the_histogram_tells_apart_what_is_below_and_above_250_ms() -> None:
    def at_most(limit: str) -> float:
        (family,) = LOOP_DELAY.collect()
        return next(s.value for s in family.samples if s.labels.get("le") == limit)

    below, all_of_them = at_most("0.25"), at_most("+Inf")
    await _run(LOOP_DELAY.observe, 0.0, 0.249, 0.0)
    grown = at_most("0.25") - below, at_most("+Inf") - all_of_them
    await _run(LOOP_DELAY.observe, 0.251)
    assert grown[0] == grown[1] > 0
    assert at_most("+Inf") - all_of_them > at_most("0.25") - below
