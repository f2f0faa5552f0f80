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
]

#: (act, part or role): the rows that every run of the tests plays
ROWS = [
    *((act, role) for role in ("leader", "holder", "owner", "addon-telegram") for act in ("kill", "stop")),
    *((act, engine) for engine in ("postgres", "nats") for act in ("kill", "stop")),
    ("end sessions of", "leader"),
    *((f"silence {line} of", "holder") for line in ("carrier", "database")),
    ("silence platform of", "owner"),
    ("stop, and hold polls, of", "leader"),
]
#: those that `make chaos` adds
FURTHER = [
    *(("end", role) for role in ("leader", "holder")),
    *((act, "addon-probe") for act in ("kill", "stop")),
    *(("end sessions of", part) for part in ("holder", "owner")),
    *((f"{how} carrier of", role) for role in ("leader", "holder") for how in ("silence", "cut")),
    *((f"{how} database of", part) for part in ("leader", "owner") for how in ("silence", "cut")),
    ("cut platform of", "owner"),
    *((act, "postgres") for act in ("jump ahead the clock of", "jump back the clock of")),
    *((act, "platform") for act in ("limit", "fail", "hang", "lose calls of", "lose replies of")),
    *((act, "platform") for act in ("hang polls of", "lose polls of", "fail polls of")),
    *((act, "model") for act in ("fail requests to", "lose replies from")),
]
ALL = [
    *(pytest.param(row, id=" ".join(row)) for row in ROWS),
    *(pytest.param(row, id=" ".join(row), marks=pytest.mark.chaos) for row in FURTHER),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[tuple[Rack, list[Bot]]]:
    async with rack() as made:
        await made.mended()
        yield made, await workload.make_bots(made)


@pytest.mark.parametrize("row", ALL)
async def test_a_fault_in_the_middle_of_turns_loses_and_doubles_nothing(
    cluster: tuple[Rack, list[Bot]], row: tuple[str, str]
) -> None:
    act, target = row
    result = await play(*cluster, 5_000 + [*ROWS, *FURTHER].index(row), [Fault(act, target, at=0.7)])
    assert [one.fault.kind for one in result.landed] == [f"{act} {target}"]
    assert result.landed[0].in_flight, "the fault found no turn"
    promises_held(result)


async def test_slow_previews_of_frontends_that_stop_in_order_never_replace_an_answer(
    cluster: tuple[Rack, list[Bot]],
) -> None:
    made, bots = cluster
    streaming = [bot for bot in bots if bot.mode == "stream"]
    stops = [Fault("end", "holder", 0.6), Fault("end", "leader", 1.6)]
    promises_held(
        await play(made, streaming, 5_800, [Fault("slow down previews of", "platform", 0.3), *stops])
    )


@pytest.mark.case("CL-09")
async def test_a_leader_that_sleeps_in_the_middle_of_a_send_wakes_up_as_a_follower(
    cluster: tuple[Rack, list[Bot]],
) -> None:
    made, bots = cluster
    term = await made.fetchval("SELECT max(term) FROM leases WHERE name = 'leader'")
    result = await play(made, bots, 5_900, [Fault("stop", "leader", at=0.5, seconds=5.0)])
    promises_held(result)
    assert await made.fetchval("SELECT max(term) FROM leases WHERE name = 'leader'") > term
