"""The official client works against the model server, which holds every call and answer against the contract."""

import base64
import io
import json
import wave
from collections.abc import AsyncIterator

import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError, RateLimitError
from openai.types.chat import ChatCompletionToolParam

from tests.support.simulation import Sim, running

LOOK: ChatCompletionToolParam = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}},
}


@pytest.fixture
async def sim() -> AsyncIterator[Sim]:
    async with running() as started:
        yield started


@pytest.fixture
async def client(sim: Sim) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{sim.url}/v1", api_key="any", max_retries=0) as started:
        yield started


async def test_models_are_listed(client: AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["sim-large", "sim-small"]
    assert (await client.models.retrieve("sim-small")).owned_by == "simulator"


async def test_a_stream_gives_the_text_and_the_usage(client: AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="sim-large",
        messages=[{"role": "user", "content": "hi"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    text, usage = "", None
    async for chunk in stream:
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
        usage = chunk.usage or usage
    assert text == "You said: hi"
    assert usage is not None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


async def test_a_tool_round_leads_to_the_answer(sim: Sim, client: AsyncOpenAI) -> None:
    await sim.post(
        "model/script", {"steps": [{"tool": "look", "arguments": {"at": "sky"}}, {"text": "Blue."}]}
    )
    first = await client.chat.completions.create(
        model="sim-large", messages=[{"role": "user", "content": "sky?"}], tools=[LOOK]
    )
    (call,) = first.choices[0].message.tool_calls or []
    assert call.type == "function"
    assert json.loads(call.function.arguments) == {"at": "sky"}
    second = await client.chat.completions.create(
        model="sim-large",
        tools=[LOOK],
        messages=[
            {"role": "user", "content": "sky?"},
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": "look", "arguments": call.function.arguments},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": call.id, "content": "blue"},
        ],
    )
    assert second.choices[0].message.content == "Blue."


async def test_a_streamed_tool_call_is_put_together(sim: Sim, client: AsyncOpenAI) -> None:
    await sim.post("model/script", {"steps": [{"text": "Hm."}, {"tool": "look", "arguments": {"at": "sky"}}]})
    async with client.chat.completions.stream(
        model="sim-large", messages=[{"role": "user", "content": "sky?"}], tools=[LOOK]
    ) as stream:
        final = await stream.get_final_completion()
    (call,) = final.choices[0].message.tool_calls or []
    assert (final.choices[0].message.content, call.function.name) == ("Hm.", "look")
    assert json.loads(call.function.arguments) == {"at": "sky"}


async def test_errors_are_those_of_the_client(sim: Sim, client: AsyncOpenAI) -> None:
    with pytest.raises(NotFoundError) as unknown:
        await client.chat.completions.create(model="other", messages=[{"role": "user", "content": "x"}])
    assert unknown.value.code == "model_not_found"
    with pytest.raises(BadRequestError):
        await client.chat.completions.create(model="sim-large", messages=[])
    await sim.post("model/faults", {"status": 429})
    with pytest.raises(RateLimitError):
        await client.chat.completions.create(model="sim-large", messages=[{"role": "user", "content": "x"}])


async def test_sound_and_pictures_are_real_files(client: AsyncOpenAI) -> None:
    speech = await client.audio.speech.create(
        model="sim-small", input="hello there", voice="alloy", response_format="wav"
    )
    with wave.open(io.BytesIO(speech.content)) as sound:
        assert sound.getnframes() == 11 * 80
    heard = await client.audio.transcriptions.create(model="sim-small", file=("a.wav", speech.content))
    assert heard.text == f"A sound of {len(speech.content)} bytes, named a.wav."
    images = await client.images.generate(model="sim-small", prompt="a cat", n=2)
    assert images.data is not None
    pictures = [base64.b64decode(image.b64_json or "") for image in images.data]
    assert [picture[:8] for picture in pictures] == [b"\x89PNG\r\n\x1a\n"] * 2
