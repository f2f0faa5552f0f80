"""The control API: what tests, the demo and benchmarks ask of the simulators themselves."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import orjson
from aiohttp import web

from services.simulators.calls import Call
from services.simulators.faults import Fault
from services.simulators.state import Feed, Platform

T = TypeVar("T")

LONGEST_WAIT = 300.0
QUIET_SECONDS = 15.0
"""After so long without a change the stream carries a comment, so that a reader who left is noticed."""


class BadControl(web.HTTPBadRequest):
    """A control request that is refused with 400; `param` is the field that is wrong."""

    def __init__(self, message: str, param: str = "") -> None:
        error = {"type": "invalid_request", "message": message, "param": param or None}
        super().__init__(text=orjson.dumps({"error": error}).decode(), content_type="application/json")


def answer(body: Any, *, status: int = 200) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(body), content_type="application/json")


async def body_of(request: web.Request, kind: type[T]) -> T:
    """The body as `kind`; unknown fields and wrong types are refused by name."""
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except msgspec.ValidationError as problem:
        raise BadControl(str(problem), _field(str(problem))) from problem
    except msgspec.DecodeError as problem:
        raise BadControl(f"the body is not JSON: {problem}") from problem


def _field(message: str) -> str:
    """The field that a validation message names: `... field `x`` or `... - at `$.x``."""
    named, place = (message.partition(mark)[2].partition("`")[0] for mark in ("field `", "at `$."))
    return ".".join(part for part in (place, named) if part)


def number(request: web.Request, name: str, default: int | None = None) -> int:
    """A whole number of the query; refused by name when it is missing or no number."""
    given = request.query.get(name)
    if given is None and default is not None:
        return default
    try:
        return int(given or "")
    except ValueError as problem:
        raise BadControl(f"the query needs `{name}` as a whole number", name) from problem


def seconds(request: web.Request, name: str, default: float) -> float:
    try:
        value = float(request.query.get(name, default))
    except ValueError as problem:
        raise BadControl(f"`{name}` is a number of seconds", name) from problem
    if not 0 <= value <= LONGEST_WAIT:
        raise BadControl(f"`{name}` is between 0 and {LONGEST_WAIT:g} seconds", name)
    return value


async def wait_for(feed: Feed, true: Callable[[], bool], *, chat: int, timeout: float) -> bool:
    """Wait until `true()` holds, asked again after each change of the chat; false after `timeout` seconds."""
    with feed.reader() as changes:
        try:
            async with asyncio.timeout(timeout):
                while not true():
                    change = await changes.get()
                    while change is not None and change["chat"] != chat:
                        change = await changes.get()
                    if change is None:
                        return true()
        except TimeoutError:
            return False
        return True


class PlatformControl:
    """Calls, waiting and faults of one stand-in: the same for each."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def add_routes(self, router: web.UrlDispatcher) -> None:
        root = f"/_sim/{self._platform.name}"
        router.add_get(f"{root}/calls", self.calls)
        router.add_get(f"{root}/wait", self.wait)
        router.add_get(f"{root}/faults", self.faults)
        router.add_post(f"{root}/faults", self.add_fault)
        router.add_delete(f"{root}/faults", self.clear_faults)

    async def calls(self, request: web.Request) -> web.Response:
        return answer(self._platform.calls.page(number(request, "since", 0)))

    async def wait(self, request: web.Request) -> web.Response:
        """The calls since `since`, once one of them matches and has ended.

        `state=received` does not wait for the end; `status` narrows to one answer (0: the connection was cut).
        """
        since = number(request, "since", 0)
        method = request.query.get("method", "*").lower()
        chat = number(request, "chat") if "chat" in request.query else None
        status = number(request, "status") if "status" in request.query else None
        in_flight_too = request.query.get("state") == "received"

        def matches(call: Call) -> bool:
            return (
                method in {"*", call.method.lower()}
                and (chat is None or chat == call.chat)
                and (status is None or status == call.status)
                and (in_flight_too or call.status is not None)
            )

        found = await self._platform.calls.wait(since, matches, timeout=seconds(request, "timeout", 10.0))
        return answer(self._platform.calls.page(since) | {"found": found})

    async def faults(self, _request: web.Request) -> web.Response:
        return answer({"faults": [msgspec.to_builtins(fault) for fault in self._platform.faults.listed()]})

    async def add_fault(self, request: web.Request) -> web.Response:
        self._platform.faults.add(await body_of(request, Fault))
        return await self.faults(request)

    async def clear_faults(self, request: web.Request) -> web.Response:
        self._platform.faults.clear()
        return await self.faults(request)


class ChangeStream:
    """`GET /_sim/events`: visible changes as server-sent events, from now on."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/_sim/events", self.stream)

    async def stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        with self._feed.reader() as changes:
            await response.prepare(request)
            await response.write(b": open\n\n")
            while (chunk := await _next_chunk(changes)) is not None:
                await response.write(chunk)
        return response


async def _next_chunk(changes: "asyncio.Queue[dict[str, Any] | None]") -> bytes | None:
    try:
        async with asyncio.timeout(QUIET_SECONDS):
            change = await changes.get()
    except TimeoutError:
        return b": quiet\n\n"
    return None if change is None else b"data: " + orjson.dumps(change) + b"\n\n"
