"""Several frontends and one owner: who reaches whom, and what is said when nobody is reached."""

import json
import os
import signal
import ssl
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import aiohttp
import psutil
import pytest
import pytest_asyncio

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
