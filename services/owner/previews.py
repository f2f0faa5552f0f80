"""Previews: the working message of a running turn, edited while its answer grows.

One call is in flight for a message, and the final answer waits for it. So a preview that has begun goes on to its reply
or its deadline whoever asked for it: broken off, it could still reach the platform, after the answer.
"""

import asyncio

from services.owner.addons import Addons
from services.owner.credentials import Access, Credentials
from services.owner.guard import guarded
from services.owner.messages import MessageLocks
from services.owner.pacing import Pacer
from shared.carrier import Call, Handlers
from shared.carrier import operations as ops
from shared.domain.errors import (
    AddonNotRunning,
    CallerFenced,
    Failure,
    OwnerUnready,
    PlatformLimited,
    PlatformRefused,
)
from shared.lifecycle import Tasks
from shared.lifecycle.points import Point, reached
from shared.observe import metrics
from shared.sdk.manifest import Kind
from shared.sdk.ops import EditArgs
from shared.store import Database, StoreUnavailable, deliveries
from shared.store.deliveries import WorkingMessage

#: seconds for one preview: a final answer waits for it at most so long
PREVIEW_SECONDS = 8.0
#: seconds after which a preview may be tried again whose working message is not sent yet
NOT_SENT_YET = 0.2


class Previews:
    """A Service: its stop lets previews that are out come back."""

    def __init__(
        self,
        *,
        database: Database,
        addons: Addons,
        credentials: Credentials,
        pacer: Pacer,
        locks: MessageLocks,
    ) -> None:
        self._database = database
        self._addons = addons
        self._credentials = credentials
        self._pacer = pacer
        self._locks = locks
        self._tasks = Tasks("previews")

    async def start(self) -> None:
        self._tasks = Tasks("previews")

    async def stop(self) -> None:
        await self._tasks.stop(grace=PREVIEW_SECONDS / 4)

    def bind(self, handlers: Handlers) -> None:
        handlers.on(ops.PREVIEW, guarded(self.preview))

    async def preview(self, request: ops.Preview, call: Call) -> ops.Shown:
        """Edit the working message of a running turn. Raises CallerFenced when the turn is over or newer."""
        access = await self._credentials.of(request.binding_id, 1)
        kind = self._addons.serving(access.kind, access.addon).kind(access.kind)
        assert kind is not None, "serving() answers with an add-on of that kind"
        message = await self._working_message(request, call)
        if not message.platform_id:
            return _put_off(NOT_SENT_YET)
        try:
            task = self._tasks.run("preview", self._outcome(request, call, access, kind, message))
        except RuntimeError:
            raise OwnerUnready("the owner of the add-ons is stopping") from None
        outcome = await asyncio.shield(task)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def _outcome(
        self, request: ops.Preview, call: Call, access: Access, kind: Kind, message: WorkingMessage
    ) -> ops.Shown | Failure | StoreUnavailable:
        """What a preview came to; a failure is handed over, for whoever asked may have gone."""
        try:
            return await self._show(request, call, access, kind, message)
        except (Failure, StoreUnavailable) as failure:
            return failure

    async def _show(
        self, request: ops.Preview, call: Call, access: Access, kind: Kind, message: WorkingMessage
    ) -> ops.Shown:
        async with self._locks.hold((request.binding_id, message.platform_chat, message.platform_id)) as hold:
            # Again under the lock: the final answer may have been sent while this waited.
            await self._working_message(request, call)
            wait = self._pacer.preview_wait(
                request.binding_id,
                message.platform_chat,
                kind.calls_per_second,
                kind.burst,
                kind.preview_ms / 1000,
            )
            if wait:
                return _put_off(wait)
            await reached(Point.PREVIEW_BEFORE)
            try:
                await self._edit(access, message, request.text)
            except PlatformLimited as limited:
                self._pacer.hold(request.binding_id, message.platform_chat, limited.seconds)
                return _put_off(limited.seconds)
            except (PlatformRefused, AddonNotRunning):
                raise  # it had no effect
            except BaseException:
                hold.doubtful = True
                raise
            await reached(Point.PREVIEW_AFTER)
        metrics.PREVIEWS.labels("shown").inc()
        return ops.Shown(shown=True)

    async def _working_message(self, request: ops.Preview, call: Call) -> WorkingMessage:
        message = await deliveries.working_message(self._database, call.turn, call.epoch)
        if message is None or message.lane_binding != request.binding_id:
            raise CallerFenced("this turn shows no more previews")
        return message

    async def _edit(self, access: Access, message: WorkingMessage, text: str) -> None:
        addon = self._addons.serving(access.kind, access.addon)
        args = EditArgs(message.platform_chat, message.platform_id, text, thread=message.thread)
        await addon.client.op(
            "edit",
            args,
            credential=access.token.reveal(),
            binding=access.binding_id,
            options=access.options,
            deadline=PREVIEW_SECONDS,
        )


def _put_off(seconds: float) -> ops.Shown:
    metrics.PREVIEWS.labels("put_off").inc()
    return ops.Shown(shown=False, wait_seconds=seconds)
