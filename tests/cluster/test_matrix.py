"""The crash matrix: each part dies, stops, or is cut off while turns are in flight, and every promise holds.

A row is one fault in a seeded workload of several chats; `tests.chaos.checker` decides over what people saw and what
is stored. Rows share one running cluster, which is mended between them.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.chaos import workload
from tests.chaos.faults import Fault
from tests.chaos.rack import Rack, rack
from tests.chaos.seed import play, promises_held
from tests.chaos.workload import Bot

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("matrix"),
]

#: (act, part or role): one row each
ROWS = [
    *((act, role) for role in ("leader", "holder") for act in ("kill", "stop", "end")),
    *((act, part) for part in ("owner", "addon-telegram", "addon-probe") for act in ("kill", "stop")),
    *((act, engine) for engine in ("postgres", "nats") for act in ("kill", "stop")),
    ("stop, and hold polls, of", "leader"),
    *(("end sessions of", part) for part in ("leader", "holder", "owner")),
    *(("silence carrier of", role) for role in ("leader", "holder")),
    *(("silence database of", part) for part in ("leader", "holder", "owner")),
    *(("cut database of", part) for part in ("leader", "owner")),
    *(("cut carrier of", role) for role in ("leader", "holder")),
    *((f"{act} platform of", "owner") for act in ("silence", "cut")),
    *((act, "platform") for act in ("limit", "fail", "hang", "lose calls of", "lose replies of")),
    *((act, "platform") for act in ("hang polls of", "lose polls of", "fail polls of")),
    *((act, "model") for act in ("fail requests to", "lose replies from")),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[tuple[Rack, list[Bot]]]:
    async with rack() as made:
        await made.mended()
        yield made, await workload.make_bots(made)


@pytest.mark.parametrize(
    ("number", "row"), list(enumerate(ROWS)), ids=[f"{act} {part}" for act, part in ROWS]
)
async def test_a_fault_in_the_middle_of_turns_loses_and_doubles_nothing(
    cluster: tuple[Rack, list[Bot]], number: int, row: tuple[str, str]
) -> None:
    act, target = row
    result = await play(*cluster, 5_000 + number, [Fault(act, target, at=0.7)])
    assert [one.fault.kind for one in result.landed] == [f"{act} {target}"]
    assert result.landed[0].in_flight, "the fault found no turn"
    promises_held(result)


@pytest.mark.case("CL-09")
async def test_a_leader_that_sleeps_in_the_middle_of_a_send_wakes_up_as_a_follower(
    cluster: tuple[Rack, list[Bot]],
) -> None:
    made, bots = cluster
    term = await made.fetchval("SELECT max(term) FROM leases WHERE name = 'leader'")
    result = await play(made, bots, 5_900, [Fault("stop", "leader", at=0.5, seconds=5.0)])
    promises_held(result)
    assert await made.fetchval("SELECT max(term) FROM leases WHERE name = 'leader'") > term
