"""What frontends may ask of the owner."""

import asyncio
from typing import Any

import msgspec
import structlog

from services.owner.addons import Addons, Running
from services.owner.authority import Authority
from services.owner.credentials import Access, Credentials
from services.owner.guard import guarded
from services.owner.pacing import Pacer
from shared.carrier import Call, Handlers
from shared.carrier import operations as ops
from shared.domain.errors import (
    CallerFenced,
    PlatformLimited,
    PlatformRefused,
)
from shared.lifecycle.points import Point, reached
from shared.sdk.ops import Me, MeArgs, PollArgs, PollResult, TypingArgs
from shared.store import Database, bindings

log = structlog.get_logger(__name__)


class ConnectorCalls:
    """Polling, token checks and typing."""

    def __init__(
        self,
        *,
        database: Database,
        addons: Addons,
        credentials: Credentials,
        authority: Authority,
        pacer: Pacer,
    ) -> None:
        self._database = database
        self._addons = addons
        self._credentials = credentials
        self._authority = authority
        self._pacer = pacer
        self._polls: dict[int, set[asyncio.Task[object]]] = {}

    def bind(self, handlers: Handlers) -> None:
        handlers.on(ops.ANNOUNCE, self.announce)
        handlers.on(ops.POLL, guarded(self.poll))
        handlers.on(ops.VERIFY, guarded(self.verify))
        handlers.on(ops.TEST, guarded(self.test))
        handlers.on(ops.TYPING, guarded(self.typing))

    async def announce(self, request: ops.Announce, call: Call) -> ops.Nothing:
        """Take note of a new leader; the polls of the one before end now, so that nobody waits for them."""
        if self._authority.announce(request.shard, call.term):
            for task in self._polls.pop(request.shard, set()):
                task.cancel()
        return ops.Nothing()

    async def poll(self, request: ops.Poll, call: Call) -> PollResult:
        await self.announce(ops.Announce(request.shard), call)
        task = asyncio.current_task()
        assert task is not None
        running = self._polls.setdefault(request.shard, set())
        running.add(task)
        try:
            access = await self._credentials.of(request.binding_id, request.revision)
            args = PollArgs(request.position, request.wait_seconds)
            seconds = max(call.remaining - ops.POLL_REPLY_SECONDS, request.wait_seconds)
            result: PollResult = await self._op(access, "poll", args, seconds)
            if result.messages:
                await reached(Point.POLL_AFTER)
            return result
        except asyncio.CancelledError:
            if self._authority.terms.get(request.shard, 0) > call.term:
                raise CallerFenced("a newer leader polls this shard") from None
            raise
        finally:
            running.discard(task)

    async def verify(self, request: ops.Verify, call: Call) -> Me:  # noqa: ARG002 - authority was checked
        token = self._credentials.open(request.binding_id, request.sealed)
        access = Access(request.binding_id, request.kind, request.addon, 0, token, request.options)
        return await self._me(access, take_over=request.take_over_webhook)

    async def test(self, request: ops.Test, call: Call) -> Me:
        if await bindings.owner_of(self._database, request.binding_id) != call.actor:
            raise PlatformRefused("this connection does not exist", reason="gone")
        return await self._me(await self._credentials.of(request.binding_id))

    async def typing(self, request: ops.Typing, call: Call) -> ops.Nothing:  # noqa: ARG002
        """Show typing if the budget has a call to spare; what the platform says to it matters to nobody."""
        access = await self._credentials.of(request.binding_id, 1)
        addon = self._addons.serving(access.kind, access.addon)
        kind = addon.kind(access.kind)
        if kind is None or not kind.typing:
            return ops.Nothing()
        if self._pacer.try_spare(request.binding_id, request.chat, kind.calls_per_second, kind.burst):
            try:
                await self._op(access, "typing", TypingArgs(request.chat, request.thread), 4.0)
            except PlatformLimited as limited:
                self._pacer.hold(request.binding_id, request.chat, limited.seconds)
        return ops.Nothing()

    async def _me(self, access: Access, *, take_over: bool = False) -> Me:
        me: Me = await self._op(access, "me", MeArgs(take_over), 15.0)
        return me

    async def _op(self, access: Access, name: str, args: msgspec.Struct, seconds: float) -> Any:
        addon: Running = self._addons.serving(access.kind, access.addon)
        return await addon.client.op(
            name,
            args,
            credential=access.token.reveal(),
            binding=access.binding_id,
            options=access.options,
            deadline=seconds,
        )
