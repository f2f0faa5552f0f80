"""Two tools. The write tool never hides a repeated call: each `apply` counts, so that a test sees every one."""

from typing import Literal

import msgspec

from services.addons.probe.world import Call
from shared.sdk.errors import PlatformRefused
from shared.sdk.ops import ToolCall, ToolResult

#: what the journal says of a write -> what the host hears; one that runs may still have its effect
OUTCOMES: dict[str, Literal["applied", "not_applied", "unknown"]] = {
    "applied": "applied",
    "not_applied": "not_applied",
    "unheard": "not_applied",
    "begun": "unknown",
}


async def read(call: Call, tool: ToolCall) -> ToolResult:
    """What it was given, as JSON."""
    await call.state.suffer("probe_read", "before")
    return ToolResult(_json(tool.arguments))


async def write(call: Call, tool: ToolCall) -> ToolResult:
    """`preview` shows, `apply` notes the operation and has the effect, `settle` tells what became of it."""
    if tool.phase == "preview":
        return ToolResult(f"would write {_json(tool.arguments)}", untrusted=False)
    if tool.phase == "settle":
        return _settled(call, tool.operation)
    if tool.phase == "read" or not tool.operation:
        raise PlatformRefused("a write needs an operation", reason="other")
    call.state.begun.add(tool.operation)
    call.state.journal.note("begun", tool.operation)
    await call.state.suffer("probe_write", "before")
    call.state.journal.note("effect", tool.operation)
    await call.state.suffer("probe_write", "after")
    return ToolResult(f"wrote {_json(tool.arguments)}", untrusted=False)


def _settled(call: Call, operation: str) -> ToolResult:
    """`applied`, `not_applied` (begun in an earlier life, which ended before the effect), `unheard` or `begun`."""
    effects = call.state.journal.counts("effect")[operation]
    before = "not_applied" if call.state.journal.counts("begun")[operation] else "unheard"
    state = "applied" if effects else "begun" if operation in call.state.begun else before
    facts = {"operation": operation, "state": state, "effects": effects}
    outcome = OUTCOMES[state]
    return ToolResult(_json(facts), untrusted=False, outcome=outcome)


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
