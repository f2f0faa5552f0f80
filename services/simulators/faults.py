"""Faults on demand: what the control API asks for happens to the next matching calls."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec
import orjson
from aiohttp import web

from shared.lifecycle import Tasks

Effect = Callable[[], Awaitable[web.StreamResponse]]


class Fault(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What happens to the next `times` calls of `method` (`*` is any; matched without case).

    `status` answers with `body` and `headers` instead of the effect. `delay_ms` comes before the effect, which
    then happens even if the client has gone away. `hang` never answers and ends when the client goes away.
    `drop` cuts the connection before or after the effect; with `after`, `delay_ms` and `hang` come between
    the effect and the cut. `chat` and `bot` (token or its digits) narrow the match.
    """

    method: str = "*"
    chat: int | None = None
    bot: str | None = None
    status: Annotated[int, msgspec.Meta(ge=200, le=599)] | None = None
    body: Any = None
    headers: dict[str, str] = {}
    delay_ms: Annotated[float, msgspec.Meta(ge=0)] = 0
    hang: bool = False
    drop: Literal["before", "after"] | None = None
    times: Annotated[int, msgspec.Meta(ge=1)] = 1

    def matches(self, method: str, bot: int | None, chat: int | None) -> bool:
        return (
            (self.method == "*" or self.method.lower() == method.lower())
            and (self.chat is None or self.chat == chat)
            and (self.bot is None or self.bot.partition(":")[0] == str(bot))
        )


class Faults:
    """The faults that still wait for their calls; the oldest that matches is used first."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []

    def add(self, fault: Fault) -> None:
        self._waiting.append(fault)

    def clear(self) -> None:
        self._waiting.clear()

    def listed(self) -> list[Fault]:
        return list(self._waiting)

    def take(self, method: str, *, bot: int | None = None, chat: int | None = None) -> Fault | None:
        """The fault that this call has to suffer, if any; each use counts against its `times`."""
        for fault in self._waiting:
            if fault.matches(method, bot, chat):
                fault.times -= 1
                if fault.times <= 0:
                    self._waiting.remove(fault)
                return fault
        return None


async def inflict(
    fault: Fault,
    request: web.Request,
    effect: Effect,
    *,
    tasks: Tasks,
    outlives_client: bool,
    default_body: Callable[[Fault], Any],
) -> web.StreamResponse | None:
    """Answer a call the way the fault says; None means that the connection was cut.

    With `outlives_client` a delayed effect happens although the client has gone away, as on a real platform
    that had read the whole request.
    """
    if fault.drop == "before":
        await _pause(fault)
        cut(request)
        return None
    if fault.drop == "after":
        await effect()
        await _pause(fault)
        cut(request)
        return None
    if fault.status is not None or fault.hang:
        await _pause(fault)
        return refusal(fault, default_body)
    if not outlives_client:
        await _pause(fault)
        return await effect()
    return await asyncio.shield(tasks.run("late_effect", _late(fault, effect)))


def refusal(fault: Fault, default_body: Callable[[Fault], Any]) -> web.Response:
    """The answer that the fault prescribes: text goes out as it is, anything else as JSON."""
    body = fault.body if fault.body is not None else default_body(fault)
    raw = body.encode() if isinstance(body, str) else orjson.dumps(body)
    kind = "text/html" if isinstance(body, str) else "application/json"
    named = {name.lower() for name in fault.headers}
    headers = fault.headers if "content-type" in named else {**fault.headers, "Content-Type": kind}
    return web.Response(status=fault.status or 500, body=raw, headers=headers)


def cut(request: web.Request) -> None:
    """End the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()


async def _late(fault: Fault, effect: Effect) -> web.StreamResponse:
    await _pause(fault)
    return await effect()


async def _pause(fault: Fault) -> None:
    if fault.delay_ms:
        await asyncio.sleep(fault.delay_ms / 1000)
    if fault.hang:
        await asyncio.get_running_loop().create_future()  # ends by cancellation: the client went away
