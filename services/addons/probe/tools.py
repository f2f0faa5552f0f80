"""Two tools. The write tool never hides a repeated call: each `apply` counts, so that a test sees every one."""

import msgspec

from services.addons.probe.world import Call
from shared.sdk.errors import PlatformRefused
from shared.sdk.ops import ToolCall, ToolResult


async def read(call: Call, tool: ToolCall) -> ToolResult:
    """What it was given, as JSON."""
    await call.state.suffer("probe_read", "before")
    return ToolResult(_json(tool.arguments))


async def write(call: Call, tool: ToolCall) -> ToolResult:
    """`preview` shows, `apply` notes the operation and has the effect, `settle` tells what became of it."""
    if tool.phase == "preview":
        return ToolResult(f"would write {_json(tool.arguments)}", untrusted=False)
    if tool.phase == "settle":
        return ToolResult(_json(_state(call, tool.operation)), untrusted=False)
    if tool.phase == "read" or not tool.operation:
        raise PlatformRefused("a write needs an operation", reason="other")
    call.state.journal.note("begun", tool.operation)
    await call.state.suffer("probe_write", "before")
    call.state.journal.note("effect", tool.operation)
    await call.state.suffer("probe_write", "after")
    return ToolResult(f"wrote {_json(tool.arguments)}", untrusted=False)


def _state(call: Call, operation: str) -> dict[str, object]:
    """`applied`, `not_applied` (begun, and ended before the effect) or `unheard`."""
    effects = call.state.journal.counts("effect")[operation]
    begun = call.state.journal.counts("begun")[operation]
    state = "applied" if effects else "not_applied" if begun else "unheard"
    return {"operation": operation, "state": state, "effects": effects}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
