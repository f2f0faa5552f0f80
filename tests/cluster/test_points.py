"""A process dies, or stops for longer than any lease, exactly before and exactly after each step of a message."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from shared.lifecycle.points import Point
from tests.chaos import workload
from tests.chaos.faults import Fault
from tests.chaos.rack import Rack, rack
from tests.chaos.seed import play, promises_held
from tests.chaos.workload import Bot

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="module"),
]

ROWS = [(act, point) for act in ("kill", "stop") for point in Point]
#: workloads of which one has every kind of turn in flight when its fault waits
TRIES = 4


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[tuple[Rack, list[Bot]]]:
    async with rack() as made:
        await made.mended()
        yield made, await workload.make_bots(made)


@pytest.mark.parametrize(
    ("number", "row"), list(enumerate(ROWS)), ids=[f"{act} at {point}" for act, point in ROWS]
)
async def test_a_process_that_dies_or_stops_between_two_effects_loses_and_doubles_nothing(
    cluster: tuple[Rack, list[Bot]], number: int, row: tuple[str, Point]
) -> None:
    act, point = row
    for attempt in range(TRIES):
        seed = 6_000 + number * TRIES + attempt
        result = await play(*cluster, seed, [Fault(act, "hit", at=0.1, point=point)])
        promises_held(result)
        if any(one.in_flight for one in result.landed):
            return
    pytest.fail(f"no workload got to {point} with a turn in flight")


@pytest.mark.case("CL-09")
async def test_a_leader_that_sleeps_for_a_minute_wakes_up_as_a_follower_and_nothing_is_lost_or_doubled(
    cluster: tuple[Rack, list[Bot]],
) -> None:
    made, bots = cluster
    led = "SELECT term, holder FROM leases WHERE name = 'leader'"
    (before,) = await made.fetch(led)
    result = await play(made, bots, 6_900, [Fault("stop", "leader", at=0.7, seconds=60.0)])
    assert result.landed[0].in_flight
    promises_held(result)
    (after,) = await made.fetch(led)
    assert after["term"] > before["term"]
    assert after["holder"] != before["holder"]
    assert made.named(before["holder"]) == result.landed[0].part, "the same process goes on"
