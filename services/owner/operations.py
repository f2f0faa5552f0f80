"""Tool calls of turns, and the ledger of those that write: once stored, once done, found again by their ID.

    (nothing) ──stored──> started ──> done | failed
                             └──────> unknown   the reply was lost and the add-on cannot say what became of it

A repetition of a write attaches to the running call, or gets the recorded outcome. A call that an earlier owner had
started is asked about (`settle`), and made only when the add-on is certain that it had no effect.
Source: architecture, step 5.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from services.owner.addons import Addons, Running
from services.owner.guard import guarded
from shared.carrier import Call, Handlers
from shared.carrier import operations as ops
from shared.domain.errors import (
    AddonNotRunning,
    Bug,
    CallerFenced,
    Deadline,
    Denied,
    Failure,
    OutcomeUnknown,
    OwnerUnready,
    PlatformUnavailable,
)
from shared.lifecycle import Tasks
from shared.lifecycle.points import Point, reached
from shared.sdk.ops import ToolCall, ToolPhase, ToolResult
from shared.store import Database, StoreUnavailable, operations

log = structlog.get_logger(__name__)

#: seconds that a tool gets
TOOL_SECONDS = 90.0
#: how often a write is made again whose add-on broke off before it had an effect
TRIES = 2
#: seconds between tries to record an outcome while the database is away
RECORD_PAUSE = 0.25
#: seconds in which an add-on that ended may come back to say what became of a write, and between the questions
SETTLE_SECONDS, SETTLE_PAUSE = 10.0, 0.1


class ToolCalls:
    """Runs tools for turns. A Service: its stop lets running writes come back."""

    def __init__(self, *, database: Database, addons: Addons, term: Callable[[], int]) -> None:
        self._database = database
        self._addons = addons
        self._term = term
        self._tasks = Tasks("tools")
        self._running: dict[str, asyncio.Task[ToolResult]] = {}
        self._storing = asyncio.Lock()

    async def start(self) -> None:
        self._tasks = Tasks("tools")

    async def stop(self) -> None:
        await self._tasks.stop(grace=5.0)

    def bind(self, handlers: Handlers) -> None:
        handlers.on(ops.TOOL_READ, guarded(self.read))
        handlers.on(ops.TOOL_WRITE, guarded(self.write))

    async def read(self, request: ops.ToolRequest, call: Call) -> ToolResult:  # noqa: ARG002
        addon = self._tool(request, "read")
        return await self._call(addon, request, "read", "")

    async def write(self, request: ops.ToolRequest, call: Call) -> ToolResult:
        """Make a write once. Raises CallerFenced for a turn that is over, OutcomeUnknown."""
        self._tool(request, "write")
        if not call.operation:
            raise Denied("a write needs an operation ID")
        running = self._running.get(call.operation)
        if running is None:
            async with self._storing:
                # One at a time, so that of two callers the one that stores the call is the one that makes it.
                running = self._running.get(call.operation)
                if running is None:
                    stored = await self._store(request, call)
                    if stored.state != "started":
                        return _recorded(stored)
                    running = self._begin(request, stored)
        # The caller may go; the write goes on, and the next one to ask attaches to it.
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if running.cancelled():
                raise OwnerUnready("the owner of the add-ons stopped in the middle: ask again") from None
            raise

    async def _store(self, request: ops.ToolRequest, call: Call) -> operations.Operation:
        stored = await operations.begin(
            self._database,
            call.operation,
            turn_id=call.turn,
            epoch=call.epoch,
            user_id=call.actor,
            binding_id=request.binding_id,
            addon=request.addon,
            tool=request.tool,
            arguments=request.arguments,
            owner_term=self._term(),
        )
        if stored is None:
            raise CallerFenced("this turn has ended or was taken over")
        return stored

    def _begin(self, request: ops.ToolRequest, stored: operations.Operation) -> "asyncio.Task[ToolResult]":
        work = self._make(request, stored.id, new=stored.new)
        try:
            task = self._tasks.run("write", work)
        except RuntimeError:
            # Fenced, or stopping, since this call came in: it is stored and was not made, which a repetition finds.
            raise OwnerUnready("the owner of the add-ons is stopping: ask again") from None
        self._running[stored.id] = task
        task.add_done_callback(lambda _: self._running.pop(stored.id, None))
        return task

    async def _make(self, request: ops.ToolRequest, operation: str, *, new: bool) -> ToolResult:
        """Make a stored write, and again only when the add-on is certain that it had no effect.

        Raises OutcomeUnknown, recorded, when nobody can say what became of it.
        """
        result = await self._apply(request, operation) if new else None
        for _ in range(TRIES):
            if result is not None:
                break
            settled = await self._settle(request, operation)
            if settled.outcome == "applied":
                result = settled
            else:
                result = await self._apply(request, operation)
        if result is None:
            result = await self._settle(request, operation)
            if result.outcome != "applied":
                result = ToolResult(
                    "It did not happen: the add-on broke off.", is_error=True, untrusted=False
                )
        return await self._finish(operation, result)

    async def _apply(self, request: ops.ToolRequest, operation: str) -> ToolResult | None:
        """The result of a write; None when its reply was lost. An add-on that starts again is waited for."""
        await reached(Point.TOOL_BEFORE)
        give_up = asyncio.get_running_loop().time() + SETTLE_SECONDS
        while True:
            try:
                result = await self._call(self._tool(request, "write"), request, "apply", operation)
            except (OutcomeUnknown, Deadline, Bug):
                # What broke in the middle may have had its effect, as with a send.
                return None
            except Failure as failure:
                if isinstance(failure, AddonNotRunning) and asyncio.get_running_loop().time() < give_up:
                    await asyncio.sleep(SETTLE_PAUSE)
                    continue
                result = ToolResult(failure.message, is_error=True, untrusted=False)
            await reached(Point.TOOL_AFTER)
            return result

    async def _settle(self, request: ops.ToolRequest, operation: str) -> ToolResult:
        """Ask the add-on what became of a write; one that ended is given the time to start again.

        Raises OutcomeUnknown, recorded, when it cannot say.
        """
        give_up = asyncio.get_running_loop().time() + SETTLE_SECONDS
        while True:
            try:
                addon = self._tool(request, "write")
                result = await self._call(addon, request, "settle", operation)
                if result.outcome == "unknown":
                    break
                return result
            except Failure as failure:
                away = isinstance(failure, AddonNotRunning | PlatformUnavailable)
                if not away or asyncio.get_running_loop().time() > give_up:
                    break
            await asyncio.sleep(SETTLE_PAUSE)
        await self._record(operation, "unknown", {})
        raise OutcomeUnknown("the outcome of this write is unknown", operation=operation)

    async def _finish(self, operation: str, result: ToolResult) -> ToolResult:
        state = "failed" if result.is_error else "done"
        stored = {"content": result.content, "is_error": result.is_error}
        await self._record(operation, state, stored)
        return result

    async def _record(self, operation: str, state: str, result: dict[str, Any]) -> None:
        """What became of a write is kept until the database takes it: nobody may ask again."""
        while True:
            try:
                return await operations.finish(self._database, operation, state, result)
            except StoreUnavailable:
                await asyncio.sleep(RECORD_PAUSE)

    def _tool(self, request: ops.ToolRequest, kind: str) -> Running:
        addon = self._addons.get(request.addon)
        tool = next((t for t in addon.manifest.capabilities.tools if t.name == request.tool), None)
        if tool is None or tool.kind != kind:
            raise Denied(f"the add-on has no {kind} tool {request.tool[:64]!r}")
        return addon

    async def _call(
        self, addon: Running, request: ops.ToolRequest, phase: ToolPhase, operation: str
    ) -> ToolResult:
        wanted = ToolCall(phase, request.arguments, operation)
        return await addon.client.tool(
            request.tool, wanted, binding=request.binding_id, deadline=TOOL_SECONDS
        )


def _recorded(stored: operations.Operation) -> ToolResult:
    if stored.state == "unknown":
        raise OutcomeUnknown("the outcome of this write is unknown", operation=stored.id)
    result: dict[str, Any] = stored.result or {}
    return ToolResult(str(result.get("content", "")), is_error=bool(result.get("is_error")))
