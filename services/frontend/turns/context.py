"""The transcript of a chat as a model request: pure functions over stored messages."""

from collections.abc import Sequence
from typing import Any

from shared.domain.records import Agent, Message


def request_messages(agent: Agent, messages: Sequence[Message], *, most_chars: int) -> list[dict[str, Any]]:
    """System text and transcript, in the order in which the model met them, cut at the old end."""
    kept = _cut(in_reading_order(messages), most_chars)
    several = len({m.sender_id for m in kept if m.role == "user"}) > 1
    system = [{"role": "system", "content": agent.instructions}] if agent.instructions else []
    return system + [_entry(message, named=several) for message in kept]


def in_reading_order(messages: Sequence[Message]) -> list[Message]:
    """Put each reply behind what it had read, before what came while it was written.

    A reply remembers (`read`) the newest message that its request held; a message that arrived later has a smaller
    number than the reply, and still is to be answered.
    """

    def place(message: Message) -> tuple[int, int, int]:
        if message.role == "user":
            return (message.seq, 0, message.seq)
        return (int(message.data.get("read", message.seq)), 1, message.seq)

    return sorted(messages, key=place)


def unanswered_calls(messages: Sequence[Message]) -> tuple[int, list[dict[str, Any]]]:
    """Tool calls of the newest reply that have no result yet, and the number of the request that asked for them.

    This is where a turn that was taken over goes on.
    """
    replies = [m for m in messages if m.role == "assistant"]
    if not replies or not replies[-1].data.get("tool_calls"):
        return 0, []
    newest = replies[-1]
    answered = {m.data.get("call") for m in messages if m.role == "tool" and m.seq > newest.seq}
    calls = [dict(call, index=n) for n, call in enumerate(newest.data["tool_calls"])]
    return int(newest.data["request"]), [call for call in calls if call["id"] not in answered]


def _entry(message: Message, *, named: bool) -> dict[str, Any]:
    if message.role == "user":
        name = " ".join(message.sender_name.split())
        return {
            "role": "user",
            "content": f"{name}: {message.content}" if named and name else message.content,
        }
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.data["call"], "content": message.content}
    entry: dict[str, Any] = {"role": "assistant", "content": message.content}
    calls = message.data.get("tool_calls")
    if calls:
        entry["tool_calls"] = [
            {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
            for c in calls
        ]
    return entry


def _cut(messages: list[Message], most_chars: int) -> list[Message]:
    """The newest messages within the limit, beginning with one of a person."""
    total = 0
    first = len(messages)
    while first > 0:
        total += len(messages[first - 1].content)
        if total > most_chars and first < len(messages):
            break
        first -= 1
    while first < len(messages) - 1 and messages[first].role != "user":
        first += 1
    return messages[first:]
