"""What happens when a frontend, its database session or its place as the leader goes away in the middle."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from shared.lifecycle import Tasks
from tests.support.rig import Bot, Replica, Rig
from tests.support.until import until, until_answer

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", autouse=True)
async def two_frontends(path: Rig) -> AsyncIterator[None]:
    """Every test begins with two frontends that reach the database."""
    while len(path.replicas) < 2:
        await path.add_frontend()
    yield
    for replica in path.replicas:
        replica.relay.refusing = False
        replica.relay.thaw()


def other(path: Rig, replica: Replica) -> Replica:
    return next(each for each in path.replicas if each is not replica)


async def end_sessions(path: Rig, replica: Replica) -> int:
    """End every database session of a frontend from the server."""
    return int(
        await path.database.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE $1",
            f"trunkline {replica.id}%",
        )
    )


async def one_answer_each(path: Rig, bot: Bot, chat: int, texts: list[str]) -> None:
    """The oracle: each message has exactly one visible answer, in order, and no turn is left open."""
    for text in texts:
        await path.answer(bot, chat, f"You said: {text}", within=15)
    await path.eventually(
        "SELECT NOT EXISTS (SELECT FROM turns WHERE state = 'running') AND NOT EXISTS "
        "(SELECT FROM deliveries WHERE state IN ('planned', 'sending'))"
    )
    assert await path.visible(bot, chat) == [f"You said: {text}" for text in texts]


async def duplicates(path: Rig) -> float:
    """How many messages were dropped because they had been stored before."""
    async with path.sim.http.get(path.replicas[0].frontend.url + "/metrics") as response:
        text = await response.text()
    (found,) = (line for line in text.splitlines() if line.startswith("trunkline_inbound_duplicates_total "))
    return float(found.split()[1])


@pytest.mark.case("CL-01")
@pytest.mark.case("TG-01")
async def test_a_leader_cut_off_with_a_poll_out_is_replaced_and_its_late_write_does_nothing(
    path: Rig,
) -> None:
    bot = await path.bot()
    await path.says(bot, 5001, "one")
    await one_answer_each(path, bot, 5001, ["one"])
    leader = await path.leader()
    term = await path.database.fetchval("SELECT term FROM leases WHERE name = 'leader'")
    leader.relay.freeze()
    await path.says(bot, 5001, "two")
    await path.eventually(
        "SELECT term > $1 AND holder <> $2 FROM leases WHERE name = 'leader'", term, leader.id, within=15
    )
    await one_answer_each(path, bot, 5001, ["one", "two"])
    leader.relay.thaw()
    await path.says(bot, 5001, "three")
    await one_answer_each(path, bot, 5001, ["one", "two", "three"])
    written = await path.database.fetchval(
        "SELECT term FROM binding_cursor WHERE binding_id = $1", bot.binding
    )
    assert written == await path.database.fetchval("SELECT term FROM leases WHERE name = 'leader'")


@pytest.mark.case("TG-01")
async def test_an_update_that_the_next_leader_reads_again_is_counted_and_not_answered_again(
    path: Rig,
) -> None:
    bot = await path.bot()
    update = {
        "update_id": 900001,
        "message": {
            "message_id": 41,
            "chat": {"id": 5001, "type": "private"},
            "from": {"id": 5001},
            "text": "ping",
        },
    }
    again: dict[str, Any] = {"status": 200, "body": {"ok": True, "result": [update]}}
    before = await duplicates(path)
    await path.says(bot, 5001, "hello")
    await one_answer_each(path, bot, 5001, ["hello"])
    await path.fault(bot, "getUpdates", **again)
    await one_answer_each(path, bot, 5001, ["hello", "ping"])
    for replica in list(path.replicas):
        await path.stop_frontend(replica)
    # As if the position had not been written before the restart.
    await path.database.execute("UPDATE binding_cursor SET position = '' WHERE binding_id = $1", bot.binding)
    await path.fault(bot, "getUpdates", **again)
    await path.add_frontend()

    async def counted() -> bool:
        return await duplicates(path) == before + 1

    await until_answer(counted, within=15)
    await one_answer_each(path, bot, 5001, ["hello", "ping"])
    assert await path.database.fetchval("SELECT count(*) FROM turns WHERE binding_id = $1", bot.binding) == 2
    stored = "SELECT position FROM binding_cursor WHERE binding_id = $1"
    assert await path.database.fetchval(stored, bot.binding) == "900002"


@pytest.mark.case("CL-01")
async def test_ending_the_leaders_sessions_moves_or_renews_the_lead_and_loses_nothing(path: Rig) -> None:
    bot = await path.bot()
    said = []
    for n in range(5):
        assert await end_sessions(path, await path.leader()) > 0
        text = f"message {n}"
        said.append(text)
        await path.says(bot, 5001, text)
        await path.answer(bot, 5001, f"You said: {text}", within=15)
    await one_answer_each(path, bot, 5001, said)


@pytest.mark.case("TG-20")
async def test_the_turn_of_a_frontend_that_lost_the_database_is_finished_by_another(path: Rig) -> None:
    bot = await path.bot()
    await path.script("slow one", {"text": "You said: slow one"}, delay_ms=2500)
    await path.says(bot, 5001, "slow one")
    holder = await path.eventually("SELECT holder FROM turns WHERE binding_id = $1", bot.binding)
    runs = next(replica for replica in path.replicas if replica.id == holder)
    runs.relay.refusing = True
    runs.relay.cut()
    await path.eventually(
        "SELECT holder <> $1 FROM turns WHERE state = 'running' AND binding_id = $2", holder, bot.binding
    )
    await path.says(bot, 5001, "next one")
    await one_answer_each(path, bot, 5001, ["slow one", "next one"])
    runs.relay.refusing = False


@pytest.mark.case("CL-07")
async def test_a_worker_that_comes_back_after_its_turn_was_taken_changes_nothing(path: Rig) -> None:
    bot = await path.bot()
    await path.script("long one", {"text": "You said: "}, {"text": "long one"}, delay_ms=1500)
    await path.says(bot, 5001, "long one")
    holder = await path.eventually("SELECT holder FROM turns WHERE binding_id = $1", bot.binding)
    runs = next(replica for replica in path.replicas if replica.id == holder)
    runs.relay.freeze()
    await path.eventually(
        "SELECT holder <> $1 AND epoch > 1 FROM turns WHERE binding_id = $2", holder, bot.binding, within=15
    )
    runs.relay.thaw()
    await one_answer_each(path, bot, 5001, ["long one"])
    answers = await path.database.fetchval(
        "SELECT count(*) FROM messages m JOIN turns t ON t.chat_id = m.chat_id "
        "WHERE m.role = 'assistant' AND t.binding_id = $1",
        bot.binding,
    )
    assert answers == 1


@pytest.mark.case("CL-09")
async def test_a_leader_whose_renewals_were_held_up_rejoins_as_a_follower(path: Rig) -> None:
    bot = await path.bot()
    leader = await path.leader()
    leader.relay.freeze()
    await path.eventually("SELECT holder <> $1 FROM leases WHERE name = 'leader'", leader.id, within=15)
    position = await path.database.fetchval(
        "SELECT position FROM binding_cursor WHERE binding_id = $1", bot.binding
    )
    leader.relay.thaw()
    await path.says(bot, 5001, "who leads")
    await one_answer_each(path, bot, 5001, ["who leads"])
    moved = await path.database.fetchrow(
        "SELECT position, term FROM binding_cursor WHERE binding_id = $1", bot.binding
    )
    assert moved["position"] != position
    assert await path.leader() is other(path, leader)


async def test_the_only_frontend_goes_on_polling_after_its_trust_ran_out(path: Rig) -> None:
    bot = await path.bot()
    await path.stop_frontend(other(path, await path.leader()))
    (only,) = path.replicas
    only.relay.freeze()
    await asyncio.wait_for(_trust_is_over(path), 10)
    only.relay.thaw()
    await path.says(bot, 5001, "still polled?")
    await one_answer_each(path, bot, 5001, ["still polled?"])


async def _trust_is_over(path: Rig) -> None:
    await path.eventually(
        "SELECT renewed_at < clock_timestamp() - interval '2 seconds' FROM leases WHERE name = 'leader'"
    )


@pytest.mark.req("CLU-04")
async def test_one_process_polls_and_a_graceful_stop_hands_over_at_once(path: Rig) -> None:
    bot = await path.bot()
    await path.says(bot, 5001, "before")
    await one_answer_each(path, bot, 5001, ["before"])
    leader = await path.leader()
    await path.stop_frontend(leader)
    await path.says(bot, 5001, "after")
    await one_answer_each(path, bot, 5001, ["before", "after"])
    polls = await path.calls(bot, "getUpdates")
    assert {call["status"] for call in polls[:-1]} <= {200, 0}
    assert await path.leader() is path.replicas[0]


async def test_a_stopping_frontend_hands_a_running_turn_over(path: Rig) -> None:
    bot = await path.bot()
    await path.script("longest", {"text": "You said: longest"}, delay_ms=3000, times=1)
    await path.says(bot, 5001, "longest")
    holder = await path.eventually("SELECT holder FROM turns WHERE binding_id = $1", bot.binding)
    runs = next(replica for replica in path.replicas if replica.id == holder)
    await path.stop_frontend(runs)
    await one_answer_each(path, bot, 5001, ["longest"])


@pytest.mark.case("TG-03")
async def test_six_messages_that_came_while_nothing_ran_are_all_answered(path: Rig) -> None:
    bot = await path.bot()
    for replica in list(path.replicas):
        await path.stop_frontend(replica)
    for n in range(6):
        await path.says(bot, 5010 + n, f"backlog {n}")
    await path.add_frontend()
    for n in range(6):
        await one_answer_each(path, bot, 5010 + n, [f"backlog {n}"])
    done = "SELECT count(*) FROM turns WHERE state = 'done' AND binding_id = $1"
    assert await path.database.fetchval(done, bot.binding) == 6


@pytest.mark.case("TG-20")
async def test_readiness_shows_the_age_of_the_oldest_waiting_message(path: Rig) -> None:
    bot = await path.bot()
    await path.script("wait for it", {"text": "You said: wait for it"}, delay_ms=1500)
    await path.says(bot, 5001, "wait for it")
    await path.eventually("SELECT count(*) = 1 FROM turns WHERE binding_id = $1", bot.binding)
    async with path.sim.http.get(path.replicas[0].frontend.url + "/readyz") as response:
        facts = (await response.json())["checks"]["messages"]
    assert facts["oldest_waiting_seconds"] > 0
    await one_answer_each(path, bot, 5001, ["wait for it"])


async def test_sessions_that_end_at_any_moment_lose_and_double_nothing(path: Rig) -> None:
    """The server ends sessions of both frontends again and again while people write."""
    bot = await path.bot()
    ending = True

    async def disturb() -> None:
        while ending:
            for replica in path.replicas:
                await end_sessions(path, replica)
            # Time for at least some work between two ends, also on a busy machine.
            await asyncio.sleep(0.4)

    tasks = Tasks("disturber")
    disturber = tasks.run("sessions", disturb())
    said: dict[int, list[str]] = {}
    for n in range(8):
        chat = 5100 + n % 4
        said.setdefault(chat, []).append(f"note {n}")
        await path.says(bot, chat, f"note {n}")
        await path.answer(bot, chat, f"You said: note {n}", within=40)
    ending = False
    await disturber
    for chat, texts in said.items():
        await one_answer_each(path, bot, chat, texts)
    await until(lambda: all(r.frontend.health.ready for r in path.replicas))
