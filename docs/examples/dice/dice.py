"""Dice: an add-on with one tool that reads."""

import secrets
from pathlib import Path

from shared.sdk.addon import Addon, OpCall, no_state
from shared.sdk.errors import PlatformRefused
from shared.sdk.ops import ToolCall, ToolResult
from shared.sdk.runtime import run_addon


async def roll(_: OpCall[None], tool: ToolCall) -> ToolResult:
    """A model may send anything, whatever the schema says: check, and refuse in words that it can act on."""
    count, sides = tool.arguments.get("count", 1), tool.arguments.get("sides", 6)
    if not (isinstance(count, int) and 1 <= count <= 20 and isinstance(sides, int) and 2 <= sides <= 100):
        raise PlatformRefused("roll 1 to 20 dice with 2 to 100 sides")
    shown = [secrets.randbelow(sides) + 1 for _ in range(count)]
    return ToolResult(", ".join(str(number) for number in shown), untrusted=False)


ADDON = Addon(
    manifest=(Path(__file__).parent / "manifest.json").read_bytes(),
    open=no_state,
    tools={"dice_roll": roll},
)

if __name__ == "__main__":
    run_addon(ADDON)
