"""What the model says: scripts given by the control API, else an echo.

The steps of a script fall into replies: consecutive texts are chunks of one reply, and a tool step ends its
reply. Which reply is due follows from the request alone (the number of tool results since the last user
message), so that a repeated request gets the same reply.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

KEEP_IDENTITIES = 100_000


class Match(msgspec.Struct, forbid_unknown_fields=True):
    """`contains` is looked for in the last user text."""

    contains: str


class Step(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A chunk of text, of reasoning, or a tool call. Arguments given as a text go out as they are, broken or not."""

    text: str | None = None
    reasoning: str | None = None
    tool: str | None = None
    arguments: dict[str, Any] | str | None = None

    def __post_init__(self) -> None:
        given = [part for part in (self.text, self.reasoning, self.tool) if part is not None]
        if len(given) != 1:
            raise ValueError("a step has exactly one of `text`, `reasoning` and `tool`")
        if self.arguments is not None and self.tool is None:
            raise ValueError("`arguments` belongs to a step with `tool`")


class Script(msgspec.Struct, forbid_unknown_fields=True):
    """The body of `POST /_sim/model/script`; `times` counts user messages, absent means always."""

    steps: Annotated[list[Step], msgspec.Meta(min_length=1)]
    match: Match | None = None
    delay_ms: Annotated[float, msgspec.Meta(ge=0)] = 0
    times: Annotated[int, msgspec.Meta(ge=1)] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply of the model: its chunks, `delay` seconds before each, and an ID that a repetition shares."""

    id: str
    steps: tuple[Step, ...]
    delay: float = 0.0


class _Running:
    """A script and the user messages that it has answered so far."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.replies = _replies(script.steps)
        self._answered: dict[str, None] = {}

    def takes(self, identity: str, text: str) -> bool:
        match, times = self.script.match, self.script.times
        if match is not None and match.contains not in text:
            return False
        if times is None or identity in self._answered:
            return True
        if len(self._answered) >= min(times, KEEP_IDENTITIES):
            return False
        self._answered[identity] = None
        return True


class Scripts:
    """The scripts in force; the oldest that matches and is not used up answers."""

    def __init__(self) -> None:
        self._running: list[_Running] = []

    def add(self, script: Script) -> None:
        self._running.append(_Running(script))

    def clear(self) -> None:
        self._running.clear()

    def reply(self, messages: Sequence[dict[str, Any]]) -> Reply:
        """What the model answers to these messages."""
        text = last_user_text(messages)
        identity = _identity(messages)
        position = _tool_results(messages)
        reply_id = hashlib.sha256(f"{identity}:{position}".encode()).hexdigest()[:24]
        for running in self._running:
            if running.takes(identity, text) and position < len(running.replies):
                return Reply(reply_id, running.replies[position], running.script.delay_ms / 1000)
        return Reply(reply_id, _echo(text))


def last_user_text(messages: Sequence[dict[str, Any]]) -> str:
    return next((_text(message) for message in reversed(messages) if message.get("role") == "user"), "")


def _text(message: dict[str, Any]) -> str:
    """The text of a message, whose content may be a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def _tool_results(messages: Sequence[dict[str, Any]]) -> int:
    count = 0
    for message in reversed(messages):
        if message.get("role") == "user":
            break
        count += message.get("role") == "tool"
    return count


def _identity(messages: Sequence[dict[str, Any]]) -> str:
    """One value for a user message in its conversation: all user texts so far, as system texts may hold the time."""
    digest = hashlib.sha256()
    for message in messages:
        if message.get("role") == "user":
            digest.update(_text(message).encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()


def _replies(steps: Sequence[Step]) -> list[tuple[Step, ...]]:
    replies: list[tuple[Step, ...]] = []
    current: list[Step] = []
    for step in steps:
        current.append(step)
        if step.tool is not None:
            replies.append(tuple(current))
            current = []
    return [*replies, tuple(current)] if current else replies


def _echo(text: str) -> tuple[Step, ...]:
    """`You said: ...` in a few chunks of about equal length."""
    answer = f"You said: {text}"
    size = max(1, -(-len(answer) // 4))
    return tuple(Step(text=answer[at : at + size]) for at in range(0, len(answer), size))
