"""A reply of the model on the wire: one completion, or the chunks of a stream."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from services.simulators.model.script import Reply, Step


@dataclass(frozen=True, slots=True)
class Envelope:
    """What surrounds each answer to one request."""

    model: str
    created: int
    prompt_tokens: int
    with_usage: bool = False


def completion(reply: Reply, envelope: Envelope) -> dict[str, Any]:
    """A whole `chat.completion`."""
    text = "".join(step.text or "" for step in reply.steps)
    reasoning = "".join(step.reasoning or "" for step in reply.steps)
    calls = [_call(reply, step) for step in reply.steps if step.tool is not None]
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    usage = _usage(reply, envelope)
    return {**_head(reply, envelope, "chat.completion"), "choices": [choice], "usage": usage}


def chunks(reply: Reply, envelope: Envelope) -> Iterator[tuple[float, dict[str, Any]]]:
    """The chunks of a stream, each with the seconds to wait before it; the `[DONE]` line is not among them."""
    yield 0.0, _chunk(reply, envelope, {"role": "assistant", "content": ""})
    for step in reply.steps:
        delay = reply.delay
        for delta in _deltas(reply, step):
            yield delay, _chunk(reply, envelope, delta)
            delay = 0.0
    yield 0.0, _chunk(reply, envelope, {}, finish=_finish(reply))
    if envelope.with_usage:
        head = _head(reply, envelope, "chat.completion.chunk")
        yield 0.0, {**head, "choices": [], "usage": _usage(reply, envelope)}


def _deltas(reply: Reply, step: Step) -> Iterator[dict[str, Any]]:
    """The pieces of one step; a tool call comes with its name first and its arguments in two pieces."""
    if step.text is not None:
        yield {"content": step.text}
    elif step.reasoning is not None:
        yield {"reasoning_content": step.reasoning}
    else:
        call = _call(reply, step)
        arguments = call["function"]["arguments"]
        half = len(arguments) // 2
        yield {"tool_calls": [{"index": 0, **call, "function": {"name": step.tool, "arguments": ""}}]}
        for piece in (arguments[:half], arguments[half:]):
            yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


def _call(reply: Reply, step: Step) -> dict[str, Any]:
    raw = step.arguments if isinstance(step.arguments, str) else orjson.dumps(step.arguments or {}).decode()
    return {"id": f"call_{reply.id}", "type": "function", "function": {"name": step.tool, "arguments": raw}}


def _chunk(
    reply: Reply, envelope: Envelope, delta: dict[str, Any], finish: str | None = None
) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    chunk = {**_head(reply, envelope, "chat.completion.chunk"), "choices": [choice]}
    return {**chunk, "usage": None} if envelope.with_usage else chunk


def _head(reply: Reply, envelope: Envelope, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{reply.id}",
        "object": kind,
        "created": envelope.created,
        "model": envelope.model,
    }


def _finish(reply: Reply) -> str:
    return "tool_calls" if any(step.tool is not None for step in reply.steps) else "stop"


def _usage(reply: Reply, envelope: Envelope) -> dict[str, int]:
    said = "".join(f"{step.text or ''}{step.reasoning or ''}{step.tool or ''}" for step in reply.steps)
    completion_tokens = tokens(said)
    return {
        "prompt_tokens": envelope.prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": envelope.prompt_tokens + completion_tokens,
    }


def tokens(text: str) -> int:
    """A token for four characters: steady, and near enough for budgets."""
    return -(-len(text) // 4)


def prompt_tokens(messages: Sequence[dict[str, Any]]) -> int:
    return tokens(orjson.dumps(messages).decode())
