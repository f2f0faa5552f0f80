"""What a model server streams, put together: text, tool calls, usage. Reasoning never leaves this module.

Real servers differ: tool calls may come whole or in pieces, without `index`, with repeated IDs; content may be null;
reasoning may stand in its own field or between <think> tags; an error may come inside a stream with status 200.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from services.frontend.model.problems import ModelProblem, problem_of
from shared.store.turns import Usage

#: no reply holds so many tokens: whoever counts this has miscounted
MOST_TOKENS = 1 << 40
#: characters and calls of one reply; a server that sends more than any model says has gone astray, and each frontend
#: that takes the turn over would fill its memory with it
MOST_CHARS, MOST_CALLS = 1 << 18, 128

_OPEN, _CLOSE = "<think>", "</think>"


@dataclass(slots=True)
class ToolCall:
    """A call that the model asks for; `arguments` is its text, which may be bad JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)


class Assembler:
    """Takes the chunks of one reply; `on_text` hears the visible text so far after each change."""

    def __init__(self, on_text: Callable[[str], None] | None = None) -> None:
        self._on_text = on_text
        self._raw = ""
        self._calls: list[ToolCall] = []
        self._places: dict[int, ToolCall] = {}
        self._usage = Usage()
        self._chars = 0
        self.finished = False

    def chunk(self, data: Any) -> None:
        """Take one decoded chunk, or one whole completion. Raises ModelProblem for an error inside it."""
        if not isinstance(data, dict):
            return
        if data.get("error"):
            raise problem_of(_status(data["error"]), data)
        self._take_usage(data.get("usage"))
        for choice in map(_object, _items(data.get("choices"))):
            delta = _object(choice.get("delta")) or _object(choice.get("message"))
            self._take_text(delta.get("content"))
            for piece in map(_object, _items(delta.get("tool_calls"))):
                self._take_call(piece)
            if choice.get("finish_reason"):
                self.finished = True

    def reply(self) -> Reply:
        calls = tuple(
            ToolCall(c.id or f"call_{n}", c.name, c.arguments) for n, c in enumerate(self._calls) if c.name
        )
        return Reply(visible(self._raw).strip(), calls, self._usage)

    def _take_text(self, content: Any) -> None:
        if isinstance(content, str) and content:
            self._raw += content
            self._count(len(content))
            if self._on_text is not None:
                self._on_text(visible(self._raw))

    def _take_call(self, piece: dict[str, Any]) -> None:
        function = _object(piece.get("function"))
        name, arguments = function.get("name"), function.get("arguments") or ""
        if not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
        named = name if isinstance(name, str) else ""
        call = self._call_at(piece.get("index"), str(piece.get("id") or ""), named)
        call.name = call.name or named
        call.arguments += arguments
        self._count(len(arguments))

    def _call_at(self, index: Any, call_id: str, name: str) -> ToolCall:
        """The call that a piece belongs to: by its index, else by its ID, else the last one begun."""
        if isinstance(index, int):
            known = self._places.get(index)
        elif call_id:
            known = next((c for c in self._calls if c.id == call_id), None)
        else:
            known = self._calls[-1] if self._calls and not name else None
        if known is None:
            if len(self._calls) >= MOST_CALLS:
                raise ModelProblem("model_endless", f"over {MOST_CALLS} calls")
            known = ToolCall(call_id, "", "")
            self._calls.append(known)
            if isinstance(index, int):
                self._places[index] = known
        return known

    def _count(self, chars: int) -> None:
        self._chars += chars
        if self._chars > MOST_CHARS:
            raise ModelProblem("model_endless", f"over {MOST_CHARS} characters")

    def _take_usage(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._usage = Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")))


def visible(raw: str) -> str:
    """The text without <think> parts; a part that is not closed yet hides all that follows."""
    if "<" not in raw:
        return raw
    shown = ""
    rest = raw
    while (start := rest.find(_OPEN)) >= 0:
        shown += rest[:start]
        end = rest.find(_CLOSE, start)
        if end < 0:
            return shown
        rest = rest[end + len(_CLOSE) :]
    # A tag that may still become one is held back.
    for length in range(min(len(_OPEN) - 1, len(rest)), 0, -1):
        if rest.endswith(_OPEN[:length]):
            return shown + rest[:-length]
    return shown + rest


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _count(value: Any) -> int:
    """A count of tokens; 0 for what cannot be one."""
    return value if isinstance(value, int) and 0 <= value < MOST_TOKENS else 0


def _status(error: Any) -> int:
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 500


class Lines:
    """Splits a byte stream into the data of server-sent events."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The payloads of complete `data:` lines; comments, events and blank lines are passed over."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > 4 << 20:
            raise ModelProblem("model_broken", "a line of the stream is too long")
        return [line[5:].strip() for line in lines if line.startswith(b"data:")]
