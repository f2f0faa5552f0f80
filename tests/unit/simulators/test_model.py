import json
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.simulators.contracts import Contract
from services.simulators.model.checks import Checks
from services.simulators.model.errors import ModelError
from services.simulators.model.script import Match, Script, Scripts, Step
from shared.lifecycle import Tasks
from tests.support.simulation import Sim
from tests.support.spec import spec_path

USER = {"role": "user", "content": "weather?"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "sunny"}
SHORT = aiohttp.ClientTimeout(total=0.2)


async def chat(sim: Sim, *messages: Any, **more: Any) -> tuple[int, Any]:
    body = {"model": "sim-large", "messages": list(messages) or [USER], **more}
    async with sim.http.post(f"{sim.url}/v1/chat/completions", json=body) as response:
        return response.status, await response.json()


async def said(sim: Sim, *messages: Any) -> str:
    _, body = await chat(sim, *messages)
    return str(body["choices"][0]["message"]["content"])


async def streamed(sim: Sim, *messages: Any, **more: Any) -> list[Any]:
    """The chunks of a stream, `[DONE]` as that text."""
    body = {"model": "sim-large", "messages": list(messages) or [USER], "stream": True, **more}
    async with sim.http.post(f"{sim.url}/v1/chat/completions", json=body) as response:
        assert response.content_type == "text/event-stream"
        lines = (await response.text()).split("\n\n")
    found = [line.removeprefix("data: ") for line in lines if line]
    return [line if line == "[DONE]" else json.loads(line) for line in found]


def reply_texts(scripts: Scripts, *messages: Any) -> list[str | None]:
    return [step.text or step.tool for step in scripts.reply(messages).steps]


async def test_without_a_script_the_model_repeats_the_last_user_text(sim: Sim) -> None:
    assert await said(sim, {"role": "system", "content": "s"}, USER) == "You said: weather?"
    parts = [{"type": "text", "text": "two"}, {"type": "text", "text": "parts"}]
    assert await said(sim, USER, {"role": "user", "content": parts}) == "You said: two\nparts"


async def test_a_stream_has_a_role_chunks_an_end_and_usage_when_asked(sim: Sim) -> None:
    chunks = await streamed(sim, stream_options={"include_usage": True})
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    texts = [chunk["choices"][0]["delta"].get("content", "") for chunk in chunks[1:-3]]
    assert len(texts) > 2
    assert "".join(texts) == "You said: weather?"
    assert chunks[-3]["choices"][0]["finish_reason"] == "stop"
    assert (chunks[-2]["choices"], chunks[-2]["usage"]["completion_tokens"]) == ([], 5)
    assert chunks[-1] == "[DONE]"
    assert all("usage" not in chunk for chunk in (await streamed(sim))[:-1])


async def test_a_script_says_its_texts_as_chunks_and_its_reasoning_apart(sim: Sim) -> None:
    await sim.post(
        "model/script", {"steps": [{"reasoning": "hm"}, {"text": "a"}, {"text": "b"}], "delay_ms": 1}
    )
    deltas = [chunk["choices"][0]["delta"] for chunk in (await streamed(sim))[1:-2]]
    assert deltas == [{"reasoning_content": "hm"}, {"content": "a"}, {"content": "b"}]
    _, body = await chat(sim)
    message = body["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("ab", "hm")


async def test_a_tool_step_ends_the_reply_and_its_result_leads_to_the_next(sim: Sim) -> None:
    steps = [{"text": "Let me look."}, {"tool": "look", "arguments": {"at": "sky"}}, {"text": "Sunny."}]
    await sim.post("model/script", {"steps": steps})
    _, first = await chat(sim)
    choice = first["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("tool_calls", "Let me look.")
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"at": "sky"}
    assert await said(sim, USER, CALL, RESULT) == "Sunny."
    _, again = await chat(sim)
    assert again["choices"] == first["choices"]


async def test_a_streamed_tool_call_comes_in_pieces(sim: Sim) -> None:
    await sim.post("model/script", {"steps": [{"tool": "look", "arguments": {"at": "sky"}}]})
    chunks = await streamed(sim)
    pieces = [call for chunk in chunks[1:-2] for call in chunk["choices"][0]["delta"]["tool_calls"]]
    assert (pieces[0]["function"], pieces[0]["index"]) == ({"name": "look", "arguments": ""}, 0)
    assert json.loads("".join(piece["function"]["arguments"] for piece in pieces)) == {"at": "sky"}
    assert all("id" not in piece for piece in pieces[1:])
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"


async def test_broken_arguments_go_out_as_they_are(sim: Sim) -> None:
    await sim.post("model/script", {"steps": [{"tool": "look", "arguments": '{"at":'}]})
    _, body = await chat(sim)
    assert body["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"at":'


async def test_cleared_scripts_say_nothing_more(sim: Sim) -> None:
    await sim.post("model/script", {"steps": [{"text": "scripted"}]})
    assert await said(sim) == "scripted"
    await sim.delete("model/script")
    assert await said(sim) == "You said: weather?"


def test_a_script_is_chosen_by_the_last_user_text() -> None:
    scripts = Scripts()
    scripts.add(Script(steps=[Step(text="found")], match=Match(contains="weather")))
    assert reply_texts(scripts, USER) == ["found"]
    other = {"role": "user", "content": "time?"}
    assert reply_texts(scripts, USER, other) != ["found"]
    assert reply_texts(scripts, other, USER) == ["found"]


def test_times_counts_user_messages_and_a_repeated_request_is_the_same_one() -> None:
    scripts = Scripts()
    scripts.add(Script(steps=[Step(text="first")], times=1))
    scripts.add(Script(steps=[Step(text="second")], times=1))
    for _ in range(2):
        assert reply_texts(scripts, USER) == ["first"]
    later = (USER, {"role": "assistant", "content": "first"}, {"role": "user", "content": "and now?"})
    for _ in range(2):
        assert reply_texts(scripts, *later) == ["second"]
    assert "".join(text or "" for text in reply_texts(scripts, *later, {"role": "user", "content": "x"})) == (
        "You said: x"
    )
    assert reply_texts(scripts, USER) == ["first"]


@given(st.lists(st.sampled_from(["text", "tool"]), min_size=1, max_size=8))
def test_each_position_has_its_reply_and_no_step_is_lost(kinds: list[str]) -> None:
    steps = [Step(**{kind: f"{kind}{number}"}) for number, kind in enumerate(kinds)]
    scripts = Scripts()
    scripts.add(Script(steps=steps))
    told: list[Step] = []
    messages: list[Any] = [USER]
    for _ in range(kinds.count("tool") + (kinds[-1] == "text")):
        told.extend(scripts.reply(messages).steps)
        messages += [CALL, RESULT]
    assert told == steps
    assert scripts.reply(messages).steps[0].text != told[0].text


async def test_unknown_models_are_not_found_and_the_list_can_be_changed(sim: Sim) -> None:
    status, body = await chat(sim, model="other")
    assert (status, body["error"]["code"]) == (404, "model_not_found")
    await sim.post("model/models", {"ids": ["other"]})
    assert (await chat(sim, model="other"))[0] == 200
    async with sim.http.get(f"{sim.url}/v1/models") as response:
        assert [model["id"] for model in (await response.json())["data"]] == ["other"]
    async with sim.http.get(f"{sim.url}/v1/models/sim-large") as response:
        assert response.status == 404


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"model": "sim-large", "messages": []}, "messages"),
        ({"model": "sim-large"}, "messages"),
        ({"model": "sim-large", "messages": [USER], "temperature": "hot"}, "temperature"),
    ],
)
async def test_requests_that_break_the_contract_are_refused(sim: Sim, body: Any, param: str) -> None:
    async with sim.http.post(f"{sim.url}/v1/chat/completions", json=body) as response:
        error = (await response.json())["error"]
    assert (response.status, error["type"], error["param"]) == (400, "invalid_request_error", param)


async def test_without_validation_the_needed_fields_are_still_asked_for(lean: Sim) -> None:
    for path in ("chat/completions", "audio/speech", "images/generations"):
        async with lean.http.post(f"{lean.url}/v1/{path}", json={"model": "sim-large"}) as response:
            assert response.status == 400
    for data in ("{", "[]"):
        async with lean.http.post(f"{lean.url}/v1/chat/completions", data=data) as response:
            assert response.status == 400


async def test_every_request_is_logged(sim: Sim) -> None:
    await chat(sim)
    call = (await sim.get("model/calls"))["calls"][0]
    assert (call["method"], call["status"]) == ("chat/completions", 200)
    assert call["params"]["messages"] == [USER]


async def test_a_fault_answers_for_the_model(sim: Sim) -> None:
    await sim.post("model/faults", {"status": 429, "headers": {"Retry-After": "3"}})
    await sim.post("model/faults", {"status": 500, "body": {"detail": "compatible servers do this"}})
    status, body = await chat(sim)
    assert (status, body["error"]["code"]) == (429, "rate_limit_exceeded")
    assert await chat(sim) == (500, {"detail": "compatible servers do this"})
    assert (await chat(sim))[0] == 200


async def test_a_stream_can_be_cut_before_its_end(sim: Sim) -> None:
    await sim.post("model/faults", {"method": "chat/completions", "drop": "after"})
    body = {"model": "sim-large", "messages": [USER], "stream": True}
    received = b""
    with pytest.raises(aiohttp.ClientError):
        async with sim.http.post(f"{sim.url}/v1/chat/completions", json=body) as response:
            async for chunk in response.content.iter_any():
                received += chunk
    assert b"[DONE]" not in received
    page = await sim.get("model/wait", since=1)
    assert [call["status"] for call in page["calls"]] == [0]


async def test_a_connection_can_be_cut_without_an_answer(sim: Sim) -> None:
    await sim.post("model/faults", {"drop": "before"})
    with pytest.raises(aiohttp.ClientError):
        await chat(sim)


async def test_a_hanging_request_ends_when_its_client_goes_away(sim: Sim) -> None:
    await sim.post("model/faults", {"hang": True})
    body = {"model": "sim-large", "messages": [USER]}
    with pytest.raises(TimeoutError):
        async with sim.http.post(f"{sim.url}/v1/chat/completions", json=body, timeout=SHORT):
            pass
    page = await sim.get("model/wait", since=1)
    assert [call["status"] for call in page["calls"]] == [0]


async def test_a_slow_script_ends_when_its_client_goes_away(sim: Sim) -> None:
    await sim.post("model/script", {"steps": [{"text": "slow"}], "delay_ms": 60_000})
    request = Tasks("test").run("request", chat(sim))
    await sim.get("model/wait", since=1, state="received")
    request.cancel()
    page = await sim.get("model/wait", since=1)
    assert [call["status"] for call in page["calls"]] == [0]


async def test_transcriptions_come_in_the_asked_form(sim: Sim) -> None:
    async def heard(**fields: str) -> tuple[int, str]:
        form = aiohttp.FormData({"model": "sim-small", **fields})
        form.add_field("file", b"12345", filename="a.ogg", content_type="audio/ogg")
        async with sim.http.post(f"{sim.url}/v1/audio/transcriptions", data=form) as response:
            return response.status, await response.text()

    sentence = "A sound of 5 bytes, named a.ogg."
    assert await heard(response_format="text") == (200, sentence)
    assert json.loads((await heard())[1]) == {"text": sentence}
    assert json.loads((await heard(response_format="verbose_json"))[1])["duration"] == 0.0
    assert (await heard(response_format="srt"))[0] == 400
    async with sim.http.post(f"{sim.url}/v1/audio/transcriptions", data={"model": "sim-small"}) as response:
        assert response.status == 400


def test_an_answer_that_breaks_the_contract_is_a_bug_of_the_simulator() -> None:
    contract = Contract(spec_path("contracts/openai/openapi.json"), "#/components/schemas/")
    with pytest.raises(ModelError) as bug:
        Checks(contract).answer("ListModelsResponse", {"object": "list", "data": [{"id": 1}]})
    assert bug.value.status == 500
    assert "data/0" in bug.value.message
