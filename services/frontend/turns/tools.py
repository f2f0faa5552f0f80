"""What an agent may call in a turn: built-in tools and the tools of its add-ons."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
import structlog

from services.frontend.catalog import Catalog, OfferedTool
from shared.carrier import Carrier
from shared.carrier import operations as ops
from shared.domain.errors import (
    AddonNotRunning,
    Bug,
    CallerFenced,
    Deadline,
    Failure,
    OutcomeUnknown,
    OwnerFenced,
    OwnerUnreachable,
    OwnerUnready,
)
from shared.domain.ids import operation_id
from shared.domain.records import Agent, Turn

log = structlog.get_logger(__name__)

#: characters of one tool result that the model reads
RESULT_CHARS = 64 * 1024
#: seconds that a call waits for an owner that is away, and between its tries
OWNER_WAIT, OWNER_PAUSE = 60.0, 0.5
#: unknown outcomes in a row after which the model is told of one
LOST_REPLIES = 3
#: what the model reads of a write that may or may not have been made
UNKNOWN = "Error: the outcome is unknown; it may have happened. Do not repeat it, tell the person."

CURRENT_TIME = {
    "name": "current_time",
    "description": "The current date and time, in UTC or in a named time zone such as Europe/Rome.",
    "parameters": {"type": "object", "properties": {"timezone": {"type": "string"}}},
}


class Toolbox:
    """The tools that one agent has in one request."""

    def __init__(self, offered: list[OfferedTool]) -> None:
        self._offered = {entry.tool.name: entry for entry in offered}

    def declarations(self) -> list[dict[str, Any]]:
        """The `tools` of a model request."""
        ours = [CURRENT_TIME]
        theirs = [
            {"name": e.tool.name, "description": e.tool.description, "parameters": e.tool.schema}
            for e in self._offered.values()
            if e.tool.name != CURRENT_TIME["name"]
        ]
        return [{"type": "function", "function": function} for function in ours + theirs]

    def find(self, name: str) -> OfferedTool | None:
        return self._offered.get(name)


class Tools:
    """Runs the calls of a reply."""

    def __init__(self, carrier: Carrier, catalog: Catalog) -> None:
        self._carrier = carrier
        self._catalog = catalog

    async def of(self, agent: Agent) -> Toolbox | None:
        """The agent's tools; None when they are switched off."""
        return Toolbox(await self._catalog.tools(agent.addons)) if agent.tools else None

    async def run(self, turn: Turn, toolbox: Toolbox | None, request: int, call: Mapping[str, Any]) -> str:
        """The text that the model reads for one call. Raises CallerFenced when the turn is no longer ours."""
        name = str(call["name"])
        if toolbox is None:
            return "Error: tools are switched off for this agent."
        try:
            arguments = msgspec.json.decode(call["arguments"] or "{}", type=dict[str, Any])
        except msgspec.DecodeError:
            return "Error: the arguments are not a JSON object."
        if name == CURRENT_TIME["name"]:
            return current_time(arguments.get("timezone"))
        offered = toolbox.find(name)
        if offered is None:
            return f"Error: there is no tool {name[:64]!r} here."
        wanted = ops.ToolRequest(offered.addon, name, arguments, turn.binding_id)
        operation = operation_id(turn.id, request, int(call["index"]))
        return (await self._ask(turn, offered, wanted, operation))[:RESULT_CHARS]

    async def _ask(self, turn: Turn, offered: OfferedTool, wanted: ops.ToolRequest, operation: str) -> str:
        """Ask the owner. A repetition carries the same operation ID, so it attaches to the first."""
        op = ops.TOOL_WRITE if offered.tool.kind == "write" else ops.TOOL_READ
        give_up = asyncio.get_running_loop().time() + OWNER_WAIT
        # Whether a write may have been made: a call that left and was not answered cannot be taken back.
        doubtful = False
        lost = 0
        while True:
            try:
                result = await self._carrier.call(
                    op, wanted, actor=turn.user_id, operation=operation, turn=turn.id, epoch=turn.epoch
                )
                return ("Error: " if result.is_error else "") + result.content
            except (OwnerUnreachable, OwnerUnready, OwnerFenced, AddonNotRunning) as away:
                doubtful |= op.write and isinstance(away, OwnerUnreachable | OwnerUnready)
                if asyncio.get_running_loop().time() > give_up:
                    return UNKNOWN if doubtful else f"Error: {away.message}"
                await asyncio.sleep(OWNER_PAUSE)
            except CallerFenced:
                raise
            except OutcomeUnknown:
                # Perhaps only the way back was lost: asked again, the owner tells what the ledger knows.
                lost += 1
                if lost == LOST_REPLIES:
                    return UNKNOWN
                await asyncio.sleep(OWNER_PAUSE)
            except Failure as failure:
                doubtful |= op.write and isinstance(failure, Deadline | Bug)
                return UNKNOWN if doubtful else f"Error: {failure.message}"


def current_time(timezone: Any) -> str:
    """The date and time as text."""
    if not timezone:
        return datetime.now(UTC).isoformat(timespec="seconds")
    try:
        return datetime.now(ZoneInfo(str(timezone))).isoformat(timespec="seconds")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"Error: there is no time zone {str(timezone)[:64]!r}."
