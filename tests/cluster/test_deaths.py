"""Any process may die at any instruction: nothing is lost and nothing is doubled."""

import os
import signal
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import psutil
import pytest
import pytest_asyncio

from tests.cluster.oracle import check
from tests.support.cluster import Cluster
from tests.support.until import until, until_answer

pytestmark = [pytest.mark.timeout(240), pytest.mark.asyncio(loop_scope="module")]

#: leases short enough for tests of stopped processes, in the proportions of the defaults
SHORT = {
    "TRUNKLINE_LEADER_RENEW_SECONDS": "0.3",
    "TRUNKLINE_LEADER_TRUST_SECONDS": "1.0",
    "TRUNKLINE_LEADER_TAKEOVER_SECONDS": "1.6",
    "TRUNKLINE_TURNS_RENEW_SECONDS": "0.3",
    "TRUNKLINE_TURNS_LEASE_SECONDS": "1.6",
    "TRUNKLINE_LIMITS_SENDER_PER_MINUTE": "1000",
}
_chats = count(40_000, 10)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(frontends=3, settings=SHORT) as started:
        yield started


@pytest.fixture
def chat() -> int:
    return next(_chats)


async def frontends(cluster: Cluster) -> list[int]:
    """The processes of all frontends, once those that died have been started again."""
    await until(lambda: all(psutil.pid_exists(pid) for pid in cluster.frontend_pids()), within=60)
    return cluster.frontend_pids()


async def holder_of(cluster: Cluster, chat: int) -> dict[str, Any]:
    """The entry of the frontend that runs the turn of a chat; waits until one does."""
    query = "SELECT t.holder FROM turns t JOIN chats c ON c.turn_id = t.id WHERE c.platform_chat = $1"

    async def holder() -> dict[str, Any] | None:
        found = await cluster.fetchval(query, str(chat))
        return next((entry for entry in cluster.run["frontends"] if entry["id"] == found), None)

    return dict(await until_answer(holder, within=20))


async def settled(cluster: Cluster, chat: int, answers: list[str]) -> None:
    """Wait for the last answer, and for everything that is on its way, then ask the oracle."""
    await cluster.sim.answer(answers[-1], chat=chat, timeout=60)
    await quiet(cluster, chat)
    await check(cluster, chat, answers)


async def quiet(cluster: Cluster, chat: int) -> None:
    """Wait until nothing of a chat is on its way."""
    query = (
        "SELECT NOT EXISTS (SELECT FROM deliveries WHERE platform_chat = $1 AND state IN ('planned', 'sending')) "
        "AND NOT EXISTS (SELECT FROM inbound WHERE platform_chat = $1 AND state = 'new') AND NOT EXISTS "
        "(SELECT FROM chats WHERE platform_chat = $1 AND (turn_id IS NOT NULL OR last_user_seq > covered_seq))"
    )
    await until_answer(lambda: cluster.fetchval(query, str(chat)), within=60)


async def slow(cluster: Cluster, word: str, *, delay_ms: int = 1500) -> None:
    await cluster.sim.script({"text": f"slow {word}"}, match={"contains": word}, delay_ms=delay_ms)


async def test_a_posted_event_is_answered(cluster: Cluster, chat: int) -> None:
    await cluster.sim.say("hello", chat=chat)
    await settled(cluster, chat, ["You said: hello"])


@pytest.mark.req("CLU-06")
async def test_the_leader_is_killed_and_the_next_one_reads_on(cluster: Cluster, chat: int) -> None:
    await cluster.sim.say("before", chat=chat)
    await cluster.sim.answer("You said: before", chat=chat)
    await quiet(cluster, chat)
    leader = await cluster.leader()
    run = cluster.run
    position = await cluster.fetchval("SELECT max(position) FROM binding_cursor")
    calls = (await cluster.sim.get("telegram/calls", since=10**9))["next"]
    await cluster.written(lambda: os.kill(leader["pid"], signal.SIGKILL))
    for n in range(5):
        await cluster.sim.say(f"after {n}", chat=chat + n + 1)
    for n in range(5):
        await settled(cluster, chat + n + 1, [f"You said: after {n}"])
    await settled(cluster, chat, ["You said: before"])
    assert (await cluster.leader())["id"] != leader["id"]
    offsets = [
        int(call["params"].get("offset", 0))
        for call in await cluster.sim.calls(since=calls)
        if call["method"] == "getUpdates"
    ]
    assert offsets[0] == int(position), "the next poll carries the stored position"
    assert offsets == sorted(offsets), "no read position moved back"
    assert cluster.run["frontends"] != run["frontends"]


@pytest.mark.case("TG-20")
async def test_the_frontend_that_runs_a_turn_is_killed_and_what_waits_is_answered(
    cluster: Cluster, chat: int
) -> None:
    # Long enough to be asked about while they wait, whichever of them the turn that goes on has read last.
    words = [f"{word}{chat}" for word in ("first", "second", "third")]
    for word in words:
        await slow(cluster, word, delay_ms=3000)
    await cluster.sim.say(f"first{chat}", chat=chat)
    holder = await holder_of(cluster, chat)
    living = next(n for n, entry in enumerate(cluster.run["frontends"]) if entry["id"] != holder["id"])
    os.kill(holder["pid"], signal.SIGKILL)
    for word in words[1:]:
        await cluster.sim.say(word, chat=chat)

    async def shows_the_age() -> bool:
        checks = (await cluster.api("GET", "/readyz", frontend=living))[1]["checks"]
        worst = {each["id"]: each["oldest_waiting_seconds"] for each in checks["links"]["worst"]}
        of_the_link = worst[cluster.run["demo"]["binding_id"]]
        return bool(checks["messages"]["oldest_waiting_seconds"] > 1 and (of_the_link or 0) > 1)

    await until_answer(shows_the_age, within=20)
    all_three = "SELECT count(*) = 3 FROM messages m JOIN chats c ON c.id = m.chat_id WHERE c.platform_chat = $1 AND m.role = 'user'"
    await until_answer(lambda: cluster.fetchval(all_three, str(chat)), within=60)
    await quiet(cluster, chat)
    turns = await cluster.fetch(
        "SELECT t.state, t.takeovers FROM turns t JOIN chats c ON c.id = t.chat_id WHERE c.platform_chat = $1 "
        "ORDER BY t.id",
        str(chat),
    )
    assert {turn["state"] for turn in turns} == {"done"}
    assert turns[0]["takeovers"] >= 1
    answers = [m["text"] for m in await cluster.sim.messages(chat) if m["from_bot"]]
    # What came meanwhile was read by the turn that went on, or had one of its own; either way it is covered once.
    in_order = [f"slow {word}" for word in words]
    assert answers == [answer for answer in in_order if answer in answers]
    assert answers[-1] == in_order[-1]
    await check(cluster, chat, answers)


async def test_the_owner_is_killed_while_answers_are_on_their_way(cluster: Cluster, chat: int) -> None:
    for n in range(4):
        await slow(cluster, f"owner{chat + n}", delay_ms=300)
        await cluster.sim.say(f"owner{chat + n}", chat=chat + n)
    await cluster.sim.wait_call("sendMessage", chat=chat)
    await cluster.written(lambda: os.kill(cluster.owner_pid, signal.SIGKILL), within=60)
    for n in range(4):
        await settled(cluster, chat + n, [f"slow owner{chat + n}"])


async def test_the_addon_is_killed_while_answers_are_on_their_way(cluster: Cluster, chat: int) -> None:
    for n in range(4):
        await slow(cluster, f"addon{chat + n}", delay_ms=300)
        await cluster.sim.say(f"addon{chat + n}", chat=chat + n)
    await cluster.sim.wait_call("sendMessage", chat=chat)
    os.kill(cluster.addon_pid("telegram"), signal.SIGKILL)
    for n in range(4):
        await settled(cluster, chat + n, [f"slow addon{chat + n}"])


async def test_nats_is_stopped_and_everything_still_works_later(cluster: Cluster, chat: int) -> None:
    os.kill(cluster.nats_pid, signal.SIGSTOP)
    try:
        await cluster.sim.say("without signals", chat=chat)
        await cluster.sim.answer("You said: without signals", chat=chat, timeout=30)
    finally:
        os.kill(cluster.nats_pid, signal.SIGCONT)
    await settled(cluster, chat, ["You said: without signals"])


async def test_nats_is_killed_and_comes_back(cluster: Cluster, chat: int) -> None:
    os.kill(cluster.nats_pid, signal.SIGKILL)
    for n in range(3):
        await cluster.sim.say(f"nats {n}", chat=chat + n)
    for n in range(3):
        await settled(cluster, chat + n, [f"You said: nats {n}"])


async def test_postgres_is_killed_and_comes_back(cluster: Cluster, chat: int) -> None:
    await slow(cluster, f"store{chat}", delay_ms=1000)
    await cluster.sim.say(f"store{chat}", chat=chat)
    await cluster.sim.wait_call("sendMessage", chat=chat)
    os.kill(cluster.postgres_pid, signal.SIGKILL)
    await settled(cluster, chat, [f"slow store{chat}"])


@pytest.mark.case("CL-01")
async def test_the_leader_loses_its_database_session_and_leads_no_more(cluster: Cluster, chat: int) -> None:
    leader = await cluster.leader()
    term = await cluster.fetchval("SELECT term FROM leases WHERE name = 'leader'")
    ended = await cluster.fetchval(
        "SELECT pg_terminate_backend(backend_pid) FROM leases WHERE name = 'leader'"
    )
    assert ended
    newer = f"SELECT term > {term} FROM leases WHERE name = 'leader'"
    await until_answer(lambda: cluster.fetchval(newer), within=10)
    await cluster.sim.say("new term", chat=chat)
    await settled(cluster, chat, ["You said: new term"])
    positions = await cluster.fetch("SELECT term FROM binding_cursor")
    assert all(row["term"] > term for row in positions), leader


@pytest.mark.case("CL-09")
async def test_a_leader_that_was_stopped_in_the_middle_of_a_send_rejoins_as_a_follower(
    cluster: Cluster, chat: int
) -> None:
    await slow(cluster, f"frozen{chat}", delay_ms=2500)
    await cluster.sim.say(f"frozen{chat}", chat=chat)
    await cluster.sim.wait_call("sendMessage", chat=chat)
    leader = await cluster.leader()
    term = await cluster.fetchval("SELECT term FROM leases WHERE name = 'leader'")
    os.kill(leader["pid"], signal.SIGSTOP)
    try:
        await cluster.sim.say("while stopped", chat=chat + 1)
        await settled(cluster, chat + 1, ["You said: while stopped"])
        await settled(cluster, chat, [f"slow frozen{chat}"])
        position = await cluster.fetchval("SELECT max(position) FROM binding_cursor")
    finally:
        os.kill(leader["pid"], signal.SIGCONT)
    await cluster.sim.say("after", chat=chat + 2)
    await settled(cluster, chat + 2, ["You said: after"])
    await settled(cluster, chat, [f"slow frozen{chat}"])
    assert await cluster.fetchval("SELECT max(position) >= $1 FROM binding_cursor", position)
    now = await cluster.fetch("SELECT term, holder FROM leases WHERE name = 'leader'")
    assert now[0]["term"] > term
    assert all(row["term"] > term for row in await cluster.fetch("SELECT term FROM binding_cursor"))
    assert leader in cluster.run["frontends"], "the same process goes on"

    async def follows() -> bool:
        members = (await cluster.api("GET", "/api/cluster"))[1]["frontends"]
        (own,) = (member for member in members if member["id"] == leader["id"])
        return bool(own["alive"] and own["shards"] == [])

    await until_answer(follows, within=15)


@pytest.mark.case("CL-07")
async def test_a_frontend_that_was_stopped_in_a_turn_ends_nothing_of_the_one_that_took_it_over(
    cluster: Cluster, chat: int
) -> None:
    word = f"paused{chat}"
    await slow(cluster, word, delay_ms=3000)
    await cluster.sim.say(word, chat=chat)
    holder = await holder_of(cluster, chat)

    async def requests() -> list[Any]:
        return [call for call in await cluster.sim.calls("model") if word in str(call["params"])]

    async def answered() -> bool:
        found = await requests()
        return len(found) == 2 and found[0]["status"] == 200 and found[1]["status"] is None

    await until_answer(requests, within=10)
    # What the other one is answered is different, so that it shows whose answer it is.
    await cluster.sim.forget_scripts()
    await cluster.sim.script({"text": f"second {word}"}, match={"contains": word}, delay_ms=3000)
    os.kill(holder["pid"], signal.SIGSTOP)
    try:
        # Another one works on the same turn, and the whole answer to the first one lies in its socket.
        await until_answer(answered, within=15)
        taken = await holder_of(cluster, chat)
        assert taken["id"] != holder["id"]
    finally:
        os.kill(holder["pid"], signal.SIGCONT)
    await settled(cluster, chat, [f"second {word}"])
    turns = await cluster.fetch(
        "SELECT t.state, t.holder, t.takeovers FROM turns t JOIN chats c ON c.id = t.chat_id "
        "WHERE c.platform_chat = $1",
        str(chat),
    )
    assert [(t["state"], t["holder"], t["takeovers"]) for t in turns] == [("done", taken["id"], 1)]
    await cluster.sim.say("and on", chat=chat)
    await settled(cluster, chat, [f"second {word}", "You said: and on"])


@pytest.mark.case("TG-01")
async def test_an_update_that_is_delivered_again_after_a_restart_is_answered_once(
    cluster: Cluster, chat: int
) -> None:
    message = {
        "message_id": 41,
        "date": 1,
        "chat": {"id": chat, "type": "private", "first_name": "Ada"},
        "from": {"id": chat, "is_bot": False, "first_name": f"Person {chat}"},
        "text": "ping",
    }
    await cluster.sim.post("telegram/events", {"bot": cluster.sim.bot, "update": {"message": message}})
    await cluster.sim.answer("You said: ping", chat=chat)
    leader = await cluster.leader()
    os.kill(leader["pid"], signal.SIGKILL)
    await cluster.sim.post("telegram/events", {"bot": cluster.sim.bot, "update": {"message": message}})
    await cluster.sim.say("pong", chat=chat)
    await cluster.sim.answer("You said: pong", chat=chat, timeout=30)
    await settled(cluster, chat, ["You said: ping", "You said: pong"])


@pytest.mark.case("TG-05")
async def test_a_send_whose_reply_was_lost_is_never_sent_again(cluster: Cluster, chat: int) -> None:
    await cluster.sim.say("known", chat=chat)
    await cluster.sim.answer("You said: known", chat=chat)
    await cluster.sim.fault("sendMessage", chat=chat, drop="after", times=1)
    await cluster.sim.say("ping", chat=chat)
    await cluster.sim.answer("You said: ping", chat=chat, timeout=30)
    await settled(cluster, chat, ["You said: known", "You said: ping"])
    unknown = await cluster.fetchval(
        "SELECT count(*) FROM deliveries WHERE platform_chat = $1 AND state = 'unknown'", str(chat)
    )
    assert unknown == 1


@pytest.mark.case("TG-05")
async def test_an_edit_whose_reply_was_lost_is_repeated_and_seen_once(cluster: Cluster, chat: int) -> None:
    await cluster.sim.say("known", chat=chat)
    await cluster.sim.answer("You said: known", chat=chat)
    await cluster.sim.fault("editMessageText", chat=chat, drop="after", times=1)
    await cluster.sim.say("ping", chat=chat)
    await settled(cluster, chat, ["You said: known", "You said: ping"])


@pytest.mark.case("TG-16")
@pytest.mark.req("OFF-08")
async def test_three_conflicts_after_a_failover_are_borne(cluster: Cluster, chat: int) -> None:
    conflict = {
        "ok": False,
        "error_code": 409,
        "description": "Conflict: terminated by other getUpdates request",
    }
    await cluster.sim.fault("getUpdates", status=409, body=conflict, times=3)
    leader = await cluster.leader()
    os.kill(leader["pid"], signal.SIGKILL)
    await cluster.sim.say("through", chat=chat)
    await settled(cluster, chat, ["You said: through"])
    assert await cluster.fetchval(
        "SELECT enabled FROM bindings WHERE id = $1", cluster.run["demo"]["binding_id"]
    )


@pytest.mark.case("TG-03")
async def test_what_was_sent_while_everything_was_down_is_answered(cluster: Cluster, chat: int) -> None:
    for pid in await frontends(cluster):
        os.kill(pid, signal.SIGKILL)
    os.kill(cluster.owner_pid, signal.SIGKILL)
    for n in range(6):
        await cluster.sim.say(f"cold {n}", chat=chat + n)
    for n in range(6):
        await settled(cluster, chat + n, [f"You said: cold {n}"])


@pytest.mark.case("TG-04")
async def test_an_answer_that_was_stored_is_sent_although_its_frontend_died_before_it_left(
    cluster: Cluster, chat: int
) -> None:
    await cluster.sim.script({"text": "Done: 3 lights off"}, match={"contains": f"lights{chat}"})
    # The owner cannot send anything for a while, so the answer is stored and has not left when the frontend dies.
    await cluster.sim.fault("sendMessage", chat=chat, hang=True, times=1)
    await cluster.sim.say(f"lights{chat}", chat=chat)
    done = "SELECT count(*) FROM turns t JOIN chats c ON c.id = t.chat_id WHERE c.platform_chat = $1 AND t.state = 'done'"
    await until_answer(lambda: cluster.fetchval(done, str(chat)), within=20)
    for pid in await frontends(cluster):
        os.kill(pid, signal.SIGKILL)
    os.kill(cluster.addon_pid("telegram"), signal.SIGKILL)
    await settled(cluster, chat, ["Done: 3 lights off"])
