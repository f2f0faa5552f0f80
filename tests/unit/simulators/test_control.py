import asyncio
import json
import subprocess
import sys
from typing import Any

import aiohttp
import pytest

from services.simulators import Simulators
from services.simulators.calls import CallLog
from services.simulators.contracts import Contract
from services.simulators.state import READER_BACKLOG, Feed
from services.simulators.telegram.checks import Checks
from services.simulators.telegram.errors import ApiError
from shared.lifecycle import Service, Tasks
from tests.support.simulation import ADA, TOKEN, Clock, Sim
from tests.support.spec import spec_path

SHORT = aiohttp.ClientTimeout(total=0.2)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"bot": TOKEN, "chat": 5001, "from": ADA, "text": "hi", "colour": "red"}, "colour"),
        ({"bot": TOKEN, "chat": 5001, "from": {**ADA, "age": 7}, "text": "hi"}, "from.age"),
        ({"bot": TOKEN, "chat": "5001", "from": ADA, "text": "hi"}, "chat"),
        ({"bot": TOKEN, "chat": 5001, "from": ADA}, "text"),
        ({"bot": TOKEN, "from": ADA, "text": "hi"}, "chat"),
        ({"chat": 5001, "from": ADA, "text": "hi"}, "bot"),
        ({"bot": "not-a-token", "chat": 5001, "from": ADA, "text": "hi"}, "bot"),
        ({"bot": TOKEN, "chat": 5001, "from": ADA, "text": ""}, "text"),
        ({"bot": TOKEN, "chat": 5001, "from": ADA, "text": "hi", "reply_to": 9}, "reply_to"),
        ({"bot": TOKEN, "chat": 5001, "update": {"message": {}}}, "update"),
        ({"bot": TOKEN, "update": {"update_id": 1}}, "update"),
        ({"bot": TOKEN, "update": {"message": {"text": "hi"}}}, "update"),
        ({"bot": TOKEN, "update": {"telepathy": {}}}, "update"),
    ],
)
async def test_a_wrong_event_is_refused_by_name_and_nothing_is_stored(
    sim: Sim, body: dict[str, Any], param: str
) -> None:
    status, answer = await sim.post("telegram/events", body)
    assert status == 400
    assert answer["error"]["param"] == param, answer
    assert await sim.shown() == []
    assert await sim.result("getUpdates") == []


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("telegram/faults", {"method": "sendMessage", "retries": 3}, "retries"),
        ("telegram/faults", {"times": 0}, "times"),
        ("telegram/faults", {"drop": "sideways"}, "drop"),
        ("telegram/bots", {"token": 7}, "token"),
        ("telegram/limits", {"enforce": "yes"}, "enforce"),
        ("telegram/chats", {"bot": TOKEN, "chat": 5001, "refusal": "tired"}, "refusal"),
        ("model/script", {"steps": []}, "steps"),
        ("model/script", {"steps": [{"text": "a", "tool": "b"}]}, "steps[0]"),
        ("model/models", {"ids": []}, "ids"),
    ],
)
async def test_a_wrong_control_body_is_refused_by_name(
    sim: Sim, path: str, body: dict[str, Any], param: str
) -> None:
    status, answer = await sim.post(path, body)
    assert (status, answer["error"]["param"]) == (400, param)


async def test_wrong_queries_are_refused_by_name(sim: Sim) -> None:
    assert (await sim.get("telegram/messages"))["error"]["param"] == "chat"
    assert (await sim.get("telegram/calls", since="x"))["error"]["param"] == "since"
    assert (await sim.get("telegram/wait", timeout="x"))["error"]["param"] == "timeout"
    assert (await sim.get("telegram/wait", timeout=1e9))["error"]["param"] == "timeout"
    async with sim.http.post(f"{sim.url}/_sim/telegram/events", data=b"{") as response:
        assert response.status == 400


async def test_every_call_is_logged_without_the_secret_of_its_token(sim: Sim) -> None:
    await sim.says("hi")
    await sim.result("sendMessage", chat_id=5001, text="x")
    await sim.refusal("sendMessage", chat_id=5001, text="")
    page = await sim.get("telegram/calls", since=1)
    assert [(call["n"], call["method"], call["status"]) for call in page["calls"]] == [
        (1, "sendMessage", 200),
        (2, "sendMessage", 400),
    ]
    assert page["calls"][0]["params"] == {"chat_id": 5001, "text": "x"}
    assert (page["calls"][0]["bot"], page["next"]) == ("111", 3)
    assert "secret" not in json.dumps(page)
    assert [call["n"] for call in (await sim.get("telegram/calls", since=2))["calls"]] == [2]


async def test_an_upload_is_logged_by_name_and_size(sim: Sim) -> None:
    form = aiohttp.FormData({"chat_id": "5001"})
    form.add_field("document", b"12345", filename="a.bin")
    async with sim.http.post(f"{sim.url}/bot{TOKEN}/sendDocument", data=form):
        pass
    logged = (await sim.get("telegram/calls"))["calls"][0]["params"]["document"]
    assert (logged["file"], logged["bytes"]) == ("a.bin", 5)


async def test_a_test_can_wait_for_a_call(sim: Sim) -> None:
    await sim.says("hi")
    tasks = Tasks("test")
    waiting = tasks.run(
        "wait", sim.get("telegram/wait", since=1, method="sendmessage", chat=5001, timeout=10)
    )
    await sim.result("getMe")
    await sim.result("sendMessage", chat_id=5001, text="x")
    page = await waiting
    assert page["found"] is True
    assert page["calls"][-1]["method"] == "sendMessage"
    late = await sim.get("telegram/wait", since=page["next"], method="sendMessage", timeout=0.01)
    assert (late["found"], late["calls"]) == (False, [])


async def test_a_test_can_wait_for_a_text(sim: Sim) -> None:
    await sim.says("the person says done")
    tasks = Tasks("test")
    waiting = tasks.run("wait", sim.get("telegram/messages", chat=5001, wait_text="done", timeout=10))
    sent = await sim.result("sendMessage", chat_id=5001, text="working")
    await sim.result("editMessageText", chat_id=5001, message_id=sent["message_id"], text="all done")
    page = await waiting
    assert (page["found"], page["messages"][-1]["text"]) == (True, "all done")
    late = await sim.get("telegram/messages", chat=5001, wait_text="never", timeout=0.01)
    assert late["found"] is False


async def test_a_fault_answers_in_place_of_the_effect(sim: Sim) -> None:
    await sim.says("hi")
    await sim.post(
        "telegram/faults",
        {"method": "sendMessage", "status": 429, "headers": {"Retry-After": "30"}, "times": 2},
    )
    for _ in range(2):
        status, body = await sim.tg("sendMessage", chat_id=5001, text="x")
        assert (status, body["parameters"]) == (429, {"retry_after": 30})
    await sim.result("sendMessage", chat_id=5001, text="y")
    assert [entry["text"] for entry in await sim.shown()] == ["hi", "y"]


async def test_a_fault_may_bring_its_own_body(sim: Sim) -> None:
    await sim.post("telegram/faults", {"method": "getMe", "status": 502, "body": "<h1>Bad Gateway</h1>"})
    await sim.post("telegram/faults", {"method": "getMe", "status": 409, "body": {"ok": False, "mine": 1}})
    async with sim.http.get(f"{sim.url}/bot{TOKEN}/getMe") as response:
        assert (response.status, response.content_type) == (502, "text/html")
        assert await response.text() == "<h1>Bad Gateway</h1>"
    assert await sim.tg("getMe") == (409, {"ok": False, "mine": 1})
    assert (await sim.tg("getMe"))[0] == 200


async def test_faults_are_narrowed_by_method_chat_and_bot(sim: Sim) -> None:
    for chat in (5001, 5002):
        await sim.says("hi", chat=chat)
    await sim.post("telegram/faults", {"chat": 5002, "status": 500})
    await sim.post("telegram/faults", {"bot": "222:any", "status": 500})
    assert (await sim.tg("sendMessage", chat_id=5001, text="x"))[0] == 200
    assert (await sim.tg("sendMessage", chat_id=5002, text="x"))[0] == 500
    assert (await sim.tg("getMe", "222:other"))[0] == 500
    assert (await sim.get("telegram/faults"))["faults"] == []


async def test_faults_can_be_cleared(sim: Sim) -> None:
    await sim.post("telegram/faults", {"status": 500})
    assert (await sim.get("telegram/faults"))["faults"] == [{"status": 500}]
    assert await sim.delete("telegram/faults") == {"faults": []}
    assert (await sim.tg("getMe"))[0] == 200


@pytest.mark.parametrize(("drop", "texts"), [("before", ["hi"]), ("after", ["hi", "x"])])
async def test_a_connection_is_cut_before_or_after_the_effect(sim: Sim, drop: str, texts: list[str]) -> None:
    await sim.says("hi")
    await sim.post("telegram/faults", {"method": "sendMessage", "drop": drop})
    with pytest.raises(aiohttp.ClientError):
        await sim.tg("sendMessage", chat_id=5001, text="x")
    assert [entry["text"] for entry in await sim.shown()] == texts
    assert (await sim.get("telegram/calls"))["calls"][-1]["status"] == 0


@pytest.mark.parametrize(("drop", "texts"), [(None, ["hi"]), ("after", ["hi", "x"])])
async def test_a_hanging_call_ends_when_its_client_goes_away(
    sim: Sim, drop: str | None, texts: list[str]
) -> None:
    await sim.says("hi")
    await sim.post("telegram/faults", {"method": "sendMessage", "hang": True, "drop": drop})
    url = f"{sim.url}/bot{TOKEN}/sendMessage"
    with pytest.raises(TimeoutError):
        async with sim.http.post(url, json={"chat_id": 5001, "text": "x"}, timeout=SHORT):
            pass
    page = await sim.get("telegram/wait", since=1, method="sendMessage")
    assert [call["status"] for call in page["calls"]] == [0]
    assert [entry["text"] for entry in await sim.shown()] == texts


async def test_a_delayed_effect_happens_although_the_client_left(sim: Sim) -> None:
    await sim.says("hi")
    await sim.post("telegram/faults", {"method": "sendMessage", "delay_ms": 300})
    url = f"{sim.url}/bot{TOKEN}/sendMessage"
    with pytest.raises(TimeoutError):
        async with sim.http.post(url, json={"chat_id": 5001, "text": "late"}, timeout=SHORT):
            pass
    assert len(await sim.shown()) == 1
    assert (await sim.get("telegram/messages", chat=5001, wait_text="late"))["found"] is True


async def test_a_delayed_answer_comes_late_but_whole(sim: Sim) -> None:
    await sim.post("telegram/faults", {"method": "getMe", "delay_ms": 20})
    await sim.post("telegram/faults", {"method": "getUpdates", "delay_ms": 20})
    assert (await sim.result("getMe"))["id"] == 111
    assert await sim.result("getUpdates") == []


async def test_visible_changes_are_streamed(sim: Sim) -> None:
    await sim.says("hi")
    async with sim.http.get(f"{sim.url}/_sim/events") as stream:
        assert await stream.content.readuntil(b"\n\n") == b": open\n\n"
        await sim.result("sendChatAction", chat_id=5001, action="typing")
        await sim.result("sendMessageDraft", chat_id=5001, draft_id=1, text="wor")
        await sim.result("sendMessage", chat_id=5001, text="working")
        changes = [json.loads((await stream.content.readuntil(b"\n\n"))[6:]) for _ in range(3)]
    assert [change["kind"] for change in changes] == ["typing", "draft", "message"]
    assert changes[2]["message"]["text"] == "working"
    assert {(change["bot"], change["chat"]) for change in changes} == {("111", 5001)}


async def test_a_reader_that_is_too_slow_is_told_to_start_over() -> None:
    feed = Feed()
    with feed.reader() as changes:
        for number in range(READER_BACKLOG + 1):
            feed.publish({"n": number})
        assert not feed
        taken = [changes.get_nowait() for _ in range(changes.qsize())]
    assert taken[-1] is None


def test_the_call_log_is_bounded_in_number_and_in_bytes() -> None:
    log = CallLog(clock=Clock(), keep_calls=3, keep_bytes=100)
    for _ in range(5):
        log.received("getMe", b"{}")
    assert [call.n for call in log.since(0)] == [3, 4, 5]
    log.received("sendMessage", b"x" * 90)
    log.received("sendMessage", b"x" * 90)
    assert [call.n for call in log.since(0)] == [7]
    assert [call.n for call in log.since(8)] == []


def test_an_answer_that_breaks_the_contract_is_a_bug_of_the_simulator() -> None:
    contract = Contract(spec_path("contracts/telegram/bot-api.schema.json"), "#/$defs/")
    with pytest.raises(ApiError) as bug:
        Checks(contract).answer("getMe", b'{"ok":true,"result":{"id":"111","is_bot":true,"first_name":"x"}}')
    assert bug.value.code == 500
    assert "result/id" in bug.value.description


async def test_the_service_starts_stops_twice_and_can_start_only_where_it_is_free() -> None:
    first = Simulators(validate=False)
    assert isinstance(first, Service)
    await first.stop()
    await first.start()
    port = int(first.url.rpartition(":")[2])
    second = Simulators(port=port, validate=False)
    with pytest.raises(OSError, match="address already in use"):
        await second.start()
    await first.stop()
    await first.stop()


async def test_a_stop_cuts_polls_and_streams(lean: Sim) -> None:
    own = Simulators(validate=False)
    await own.start()
    tasks = Tasks("test")
    async with aiohttp.ClientSession() as http, http.get(f"{own.url}/_sim/events") as stream:
        await stream.content.readuntil(b"\n\n")
        poll = tasks.run("poll", Sim(own.url, Clock(), http).tg("getUpdates", timeout=50))
        await Sim(own.url, Clock(), http).get("telegram/wait", method="getUpdates", state="received")
        async with asyncio.timeout(5):
            await own.stop()
        with pytest.raises(aiohttp.ClientError):
            await poll
    assert (await lean.tg("getMe"))[0] == 200


def test_without_validation_no_schema_library_is_loaded() -> None:
    program = (
        "import asyncio, sys\n"
        "from services.simulators import Simulators\n"
        "async def run():\n"
        "    simulators = Simulators(validate=False); await simulators.start(); await simulators.stop()\n"
        "asyncio.run(run())\n"
        "assert 'jsonschema' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)
