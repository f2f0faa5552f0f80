"""Several frontends and one owner: who reaches whom, and what is said when nobody is reached."""

import json
import os
import signal
import ssl
import zlib
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import aiohttp
import asyncpg
import psutil
import pytest
import pytest_asyncio

from shared.store.leases import KEY_OWNER
from tests.support.cluster import Cluster
from tests.support.until import until_answer

pytestmark = [pytest.mark.timeout(240), pytest.mark.asyncio(loop_scope="module")]

_numbers = count(1)
CONFIRM: dict[str, Any] = {"accept_any": True, "confirm_accept_any": "accept any message"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(frontends=2) as started:
        yield started


def token() -> str:
    return f"{880_000 + next(_numbers)}:AAmarkedAAmarkedAAmarkedAAmarkedAAm"


async def agent(cluster: Cluster, **fields: Any) -> str:
    body = {"name": f"Agent {next(_numbers)}", "model": "sim-large", **fields}
    status, made = await cluster.api("POST", "/api/agents", json=body)
    assert status == 201, made
    return str(made["id"])


async def connect(cluster: Cluster, bot: str, *, frontend: int = 0, **fields: Any) -> tuple[int, Any]:
    body = {"kind": "telegram", "name": f"Bot {bot[:6]}", "token": bot, "enabled": True, **fields}
    body.setdefault("agent_id", await agent(cluster))
    return await cluster.api("POST", "/api/chats/connectors", json=body, frontend=frontend)


async def say(cluster: Cluster, bot: str, chat: int, text: str, *, person: int = 0) -> None:
    event = {"bot": bot, "chat": chat, "from": {"id": person or chat, "first_name": "Ada"}, "text": text}
    await cluster.sim.post("telegram/events", event)


async def polls(cluster: Cluster, entry: dict[str, Any]) -> float:
    """How many polls a frontend has completed."""
    async with aiohttp.ClientSession() as http, http.get(entry["url"] + "/metrics") as response:
        lines = (await response.text()).splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith("trunkline_polls_total{"))


async def refusal(cluster: Cluster) -> dict[str, Any] | None:
    """The error that a frontend answers to the question for the kinds; None when it lists them."""
    status, body = await cluster.api("GET", "/api/chats/connectors/kinds", frontend=1)
    assert (status, "kinds" in body) in {(200, True), (503, False)}, body
    if status == 200:
        assert [kind["id"] for kind in body["kinds"]] == ["telegram"], "an empty list is no sign of an outage"
        return None
    assert body["error"]["type"] == "owner_unavailable"
    assert "connector add-on runs" in body["error"]["message"]
    assert "private carrier" in body["error"]["message"]
    return dict(body["error"])


async def refused_as(cluster: Cluster, code: str) -> None:
    """Wait until the owner's kinds are refused with this code; nothing may be connected then."""

    async def same() -> bool:
        return ((await refusal(cluster)) or {}).get("code") == code

    await until_answer(same, within=20)
    before = (await cluster.api("GET", "/api/chats/connectors"))[1]["connectors"]
    status, body = await connect(cluster, token(), **CONFIRM)
    assert (status, body["error"]["code"]) == (503, code)
    after = (await cluster.api("GET", "/api/chats/connectors"))[1]["connectors"]
    assert [c["id"] for c in after] == [c["id"] for c in before]


async def served(cluster: Cluster) -> None:
    """Wait until the owner answers again, with the kinds of its add-ons."""

    async def listed() -> bool:
        status, body = await cluster.api("GET", "/api/chats/connectors/kinds")
        return status == 200 and bool(body["kinds"])

    await until_answer(listed, within=40)


@pytest.mark.req("CLU-04")
async def test_polls_come_from_the_leader_and_from_no_other_process(cluster: Cluster) -> None:
    leader = await cluster.leader()
    entries = cluster.run["frontends"]
    before = [await polls(cluster, entry) for entry in entries]
    since = (await cluster.sim.get("telegram/calls", since=10**9))["next"]
    await cluster.sim.say("who reads this", chat=6010)
    await cluster.sim.answer("You said: who reads this", chat=6010)
    more = [await polls(cluster, entry) - was for entry, was in zip(entries, before, strict=True)]
    assert [n > 0 for n in more] == [entry["id"] == leader["id"] for entry in entries]
    read = [call for call in await cluster.sim.calls(since=since) if call["method"] == "getUpdates"]
    assert {call["status"] for call in read} <= {200, None}, "no second reader"


@pytest.mark.req("CLU-10")
async def test_kinds_are_the_owners_on_every_frontend(cluster: Cluster) -> None:
    found = [await cluster.api("GET", "/api/chats/connectors/kinds", frontend=n) for n in (0, 1)]
    assert [status for status, _ in found] == [200, 200]
    assert [kind["id"] for kind in found[0][1]["kinds"]] == ["telegram"]
    assert found[0] == found[1]


@pytest.mark.req("CLU-11")
async def test_the_carrier_refuses_whoever_does_not_prove_who_it_is(cluster: Cluster) -> None:
    ports = [
        c.laddr.port
        for c in psutil.Process(cluster.owner_pid).net_connections(kind="tcp")
        if c.status == psutil.CONN_LISTEN
    ]
    unproven = ssl.create_default_context()
    unproven.check_hostname, unproven.verify_mode = False, ssl.CERT_NONE
    refused = 0
    async with aiohttp.ClientSession() as http:
        for port in ports:
            try:
                await http.ws_connect(f"https://127.0.0.1:{port}/carrier", ssl=unproven)
            except aiohttp.ClientConnectorError:
                continue  # the port of health and metrics speaks no TLS
            except (aiohttp.ClientError, OSError):
                refused += 1
            else:
                pytest.fail("a peer without a certificate was let in")
    assert refused == 1


@pytest.mark.req("CLU-12")
@pytest.mark.req("CLU-13")
@pytest.mark.req("CLU-14")
async def test_a_binding_is_made_and_tested_on_a_frontend_that_has_no_add_on(cluster: Cluster) -> None:
    bot = token()
    status, made = await connect(cluster, bot, frontend=1, **CONFIRM)
    assert status == 201, made
    status, tested = await cluster.api("POST", f"/api/chats/connectors/{made['id']}/test", frontend=1)
    assert (status, tested["ok"]) == (200, True)
    await say(cluster, bot, 6001, "made elsewhere")
    await cluster.sim.answer("You said: made elsewhere", chat=6001)
    for pid in cluster.frontend_pids():
        commands = [" ".join(child.cmdline()) for child in psutil.Process(pid).children(recursive=True)]
        assert not [command for command in commands if "services.addons" in command]


@pytest.mark.req("CLU-15")
async def test_leader_and_owner_are_different_processes_and_messages_are_answered(cluster: Cluster) -> None:
    leader = await cluster.leader()
    assert leader["pid"] != cluster.owner_pid
    await cluster.sim.say("across", chat=6002)
    await cluster.sim.answer("You said: across", chat=6002)


@pytest.mark.req("CLU-16")
async def test_a_notification_from_a_frontend_arrives_through_the_owner(cluster: Cluster) -> None:
    doomed, teller = token(), token()
    status, made = await connect(cluster, teller, notify_chat="6003", **CONFIRM)
    assert status == 201, made
    await say(cluster, teller, 6003, "hello")
    await cluster.sim.answer("You said: hello", chat=6003)
    status, made = await connect(cluster, doomed, **CONFIRM)
    assert status == 201, made
    await cluster.sim.post("telegram/bots", {"token": doomed, "refuse": True})
    shown = await cluster.sim.answer("was switched off", chat=6003, timeout=40)
    notice = next(m["text"] for m in shown if "was switched off" in m["text"])
    assert "refuses the token" in notice
    assert "/app/" not in notice


@pytest.mark.req("CLU-19")
async def test_a_stranger_and_a_tool_that_was_not_granted_are_refused_across_frontends(
    cluster: Cluster,
) -> None:
    bot = token()
    status, made = await connect(
        cluster, bot, frontend=1, allow=["6004"], agent_id=await agent(cluster, addons=[])
    )
    assert status == 201, made
    await cluster.sim.script(
        {"tool": "probe_write", "arguments": {"value": "x"}},
        {"text": "done"},
        match={"contains": "use the tool"},
    )
    await say(cluster, bot, 6005, "let me in")
    await say(cluster, bot, 6004, "use the tool")
    await cluster.sim.answer("done", chat=6004, timeout=30)
    requests = await cluster.sim.calls("model")
    offered = [
        t["function"]["name"]
        for c in requests
        if "use the tool" in json.dumps(c)
        for t in c["params"].get("tools", [])
    ]
    assert "probe_write" not in offered
    results = await cluster.fetch(
        "SELECT content FROM messages WHERE role = 'tool' AND data->>'name' = 'probe_write'"
    )
    assert results
    assert all("no tool" in row["content"] for row in results)
    assert await cluster.fetchval("SELECT count(*) FROM operations") == 0
    shown = await cluster.sim.messages(6005)
    assert [m["text"] for m in shown if m["from_bot"]] == []
    senders = (await cluster.api("GET", f"/api/chats/connectors/{made['id']}/senders", frontend=1))[1][
        "senders"
    ]
    assert [(s["id"], s["reason"]) for s in senders if s["id"] == "6005"] == [("6005", "not_listed")]


@pytest.mark.req("CLU-31")
async def test_a_send_whose_way_back_was_cut_is_not_repeated(cluster: Cluster) -> None:
    bot = token()
    status, made = await connect(cluster, bot, reply_mode="off", **CONFIRM)
    assert status == 201, made
    await cluster.sim.fault("sendMessage", chat=6006, drop="after", times=1)
    await say(cluster, bot, 6006, "once")
    unknown = "SELECT count(*) FROM deliveries WHERE platform_chat = '6006' AND state = 'unknown'"
    await until_answer(lambda: cluster.fetchval(unknown), within=30)
    await say(cluster, bot, 6006, "twice")
    shown = await cluster.sim.answer("You said: twice", chat=6006)
    assert [m["text"] for m in shown if m["from_bot"]] == ["You said: once", "You said: twice"]


@pytest.mark.req("CLU-31")
async def test_a_send_in_which_the_owner_was_killed_is_there_once(cluster: Cluster) -> None:
    bot = token()
    status, made = await connect(cluster, bot, reply_mode="off", **CONFIRM)
    assert status == 201, made
    await cluster.sim.fault("sendMessage", chat=6011, delay_ms=1500, times=1)
    await say(cluster, bot, 6011, "cut off")
    await cluster.sim.wait_call("sendMessage", chat=6011, state="received")
    await cluster.written(lambda: os.kill(cluster.owner_pid, signal.SIGKILL), within=60)
    await cluster.sim.answer("You said: cut off", chat=6011)
    await say(cluster, bot, 6011, "afterwards")
    shown = await cluster.sim.answer("You said: afterwards", chat=6011, timeout=40)
    assert [m["text"] for m in shown if m["from_bot"]] == ["You said: cut off", "You said: afterwards"]
    sends = [c for c in await cluster.sim.calls() if c["method"] == "sendMessage" and c.get("chat") == 6011]
    assert len(sends) == 2


@pytest.mark.req("CLU-21")
@pytest.mark.req("CLU-25")
@pytest.mark.req("CLU-34")
async def test_an_owner_out_of_reach_is_an_error_and_nothing_is_stored(cluster: Cluster) -> None:
    agent_id = await agent(cluster)
    before = (await cluster.api("GET", "/api/chats/connectors"))[1]["connectors"]
    os.kill(cluster.owner_pid, signal.SIGSTOP)
    try:
        status, body = await cluster.api("GET", "/api/chats/connectors/kinds", frontend=1)
        assert status == 503, body
        assert "carrier" in body["error"]["message"]
        status, body = await connect(cluster, token(), agent_id=agent_id, **CONFIRM)
        assert status == 503, body
    finally:
        os.kill(cluster.owner_pid, signal.SIGCONT)

    async def answers() -> bool:
        return (await cluster.api("GET", "/api/chats/connectors/kinds"))[0] == 200

    await until_answer(answers, within=30)
    after = (await cluster.api("GET", "/api/chats/connectors"))[1]["connectors"]
    assert [c["id"] for c in after] == [c["id"] for c in before]


@pytest.mark.req("NEW-27")
async def test_a_command_read_by_one_leader_begins_a_new_chat_with_what_the_next_one_reads(
    cluster: Cluster,
) -> None:
    bot = token()
    status, made = await connect(cluster, bot, **CONFIRM)
    assert status == 201, made
    await say(cluster, bot, 6013, "in the old chat")
    await cluster.sim.answer("You said: in the old chat", chat=6013)
    first = await cluster.leader()
    await say(cluster, bot, 6013, "/new")
    await cluster.sim.answer("new chat", chat=6013)
    await cluster.written(lambda: os.kill(first["pid"], signal.SIGKILL), within=60)
    assert (await cluster.leader())["pid"] != first["pid"]
    await say(cluster, bot, 6013, "in the new chat")
    await cluster.sim.answer("You said: in the new chat", chat=6013)
    read = await cluster.fetch("SELECT term FROM inbound WHERE binding_id = $1 ORDER BY id", made["id"])
    assert read[0]["term"] == read[1]["term"] < read[2]["term"]
    turns = await cluster.fetch(
        "SELECT chat_id, holder FROM turns WHERE binding_id = $1 ORDER BY id", made["id"]
    )
    assert len({turn["chat_id"] for turn in turns}) == 2
    assert turns[1]["holder"] != first["id"]


@pytest.mark.req("CLU-29")
@pytest.mark.req("TOK-05")
async def test_a_refused_new_token_leaves_the_binding_as_it_was_and_it_goes_on_answering(
    cluster: Cluster,
) -> None:
    bot, refused = token(), token()
    status, made = await connect(cluster, bot, **CONFIRM)
    assert status == 201, made
    await cluster.sim.post("telegram/bots", {"token": refused, "refuse": True})
    path = f"/api/chats/connectors/{made['id']}"
    stored = (await cluster.api("GET", path))[1]
    status, body = await cluster.api("PUT", path, json={"token": refused, "name": "Renamed"})
    assert status == 400, body
    assert (await cluster.api("GET", path))[1] == stored
    await say(cluster, bot, 6007, "still there")
    await cluster.sim.answer("You said: still there", chat=6007)
    status, body = await cluster.api("PUT", path, json={"name": "Renamed"})
    assert (status, body["name"]) == (200, "Renamed")
    await say(cluster, bot, 6007, "after the change")
    await cluster.sim.answer("You said: after the change", chat=6007)


@pytest.mark.req("CLU-22")
@pytest.mark.req("CLU-24")
async def test_an_owner_that_is_held_in_its_start_is_an_error_and_no_empty_list(cluster: Cluster) -> None:
    name = await cluster.fetchval("SELECT name FROM leases WHERE name LIKE 'owner:%'")
    hold = await asyncpg.connect(cluster.run["postgres"]["dsn"])
    try:
        os.kill(cluster.owner_pid, signal.SIGKILL)
        # Its lock is free as soon as its session is gone; its successor needs a moment to get there.
        await hold.execute(
            "SELECT pg_advisory_lock($1, $2)",
            KEY_OWNER,
            zlib.crc32(name.partition(":")[2].encode()) & 0x7FFFFFFF,
        )
        await refused_as(cluster, "owner_unready")
    finally:
        await hold.close()
    await served(cluster)


@pytest.mark.req("CLU-23")
@pytest.mark.req("CLU-24")
@pytest.mark.req("CLU-34")
async def test_a_fenced_owner_is_an_error_and_no_empty_list(cluster: Cluster) -> None:
    assert await cluster.fetch(
        "UPDATE leases SET term = term + 1, holder = 'another machine/1' WHERE name LIKE 'owner:%' RETURNING term"
    )
    await refused_as(cluster, "owner_fenced")
    # That other owner was none: the lease runs out, and the next one here may take over.
    await cluster.written(lambda: os.kill(cluster.owner_pid, signal.SIGKILL), within=60)
    await served(cluster)
    await cluster.sim.say("one owner again", chat=6012)
    await cluster.sim.answer("You said: one owner again", chat=6012)
