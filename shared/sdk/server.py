"""The add-on's side of the protocol: an HTTP server on a Unix socket.

`GET /manifest`, `GET /health`, `POST /v1/op/<name>`, `POST /v1/tool/<name>`; see `ops` for the bodies.
"""

import asyncio
import hmac
import os
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
import structlog
from aiohttp import web

from shared.sdk.addon import Addon, OpCall, Secret, Surroundings
from shared.sdk.errors import Bug, Deadline, Failure, OutcomeUnknown, TooLarge
from shared.sdk.ops import UNREPEATABLE_OPS, Envelope, HealthAnswer, ToolCall
from shared.sdk.wire import MAX_BODY_BYTES, failure_body, failure_status, result_body
from shared.text.redaction import scrub

log = structlog.get_logger(__name__)
S = TypeVar("S")
Handler = Callable[[OpCall[S], Any], Awaitable[msgspec.Struct]]

#: an hour; a longer deadline is a mistake of the caller
_LONGEST_CALL_SECONDS = 3600.0
#: how long running calls may finish after a stop, in seconds
_STOP_GRACE_SECONDS = 2.0

_envelopes = msgspec.json.Decoder(Envelope)


class AddonServer(Generic[S]):
    """A Service that answers the host's calls for one add-on until it is stopped.

    A caller that goes away cancels its call. `last_call` is the loop time of the host's last accepted call.
    """

    def __init__(
        self, addon: Addon[S], surroundings: Surroundings, *, socket_path: Path, credential: str
    ) -> None:
        self._addon = addon
        self._surroundings = surroundings
        self._socket_path = socket_path
        self._bearer = f"Bearer {credential}".encode()
        self._open = AsyncExitStack()
        self._state: S | None = None
        self.last_call = 0.0

    async def start(self) -> None:
        self.last_call = asyncio.get_running_loop().time()
        async with AsyncExitStack() as undo:
            if self._surroundings.host is not None:
                undo.push_async_callback(self._surroundings.host.stop)
                await self._surroundings.host.start()
            self._state = await undo.enter_async_context(self._addon.open(self._surroundings))
            runner = web.AppRunner(
                self._application(),
                access_log=None,
                handler_cancellation=True,
                shutdown_timeout=_STOP_GRACE_SECONDS,
            )
            undo.push_async_callback(runner.cleanup)
            await runner.setup()
            await self._listen(runner)
            self._open = undo.pop_all()

    async def stop(self) -> None:
        await self._open.aclose()

    async def _listen(self, runner: web.AppRunner) -> None:
        """Only the owner's user may connect: the socket is 0600 from its first moment."""
        self._socket_path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            await web.UnixSite(runner, str(self._socket_path)).start()
        finally:
            os.umask(before)

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        routes = application.router
        routes.add_get("/manifest", self._manifest)
        routes.add_get("/health", self._health)
        for name, op in self._addon.ops.items():
            decoder = msgspec.json.Decoder(self._addon.argument_type(name))
            routes.add_post(f"/v1/op/{name}", partial(self._call, name, decoder, op))
        for name, tool in self._addon.tools.items():
            routes.add_post(
                f"/v1/tool/{name}", partial(self._call, name, msgspec.json.Decoder(ToolCall), tool)
            )
        routes.add_route("*", "/{path:.*}", self._unknown)
        return application

    def _accepts(self, request: web.Request) -> bool:
        """Only the host that started this process knows the credential; a foreign call does not count."""
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._bearer):
            return False
        self.last_call = asyncio.get_running_loop().time()
        return True

    async def _manifest(self, request: web.Request) -> web.Response:
        return _json(self._addon.manifest) if self._accepts(request) else _refused()

    async def _health(self, request: web.Request) -> web.Response:
        if not self._accepts(request):
            return _refused()
        heard: Callable[[Any], Mapping[str, float]] | None = self._addon.heard
        return _json(result_body(HealthAnswer(dict(heard(self._state)) if heard else {})))

    async def _unknown(self, request: web.Request) -> web.Response:
        if not self._accepts(request):
            return _refused()
        return _json(failure_body(Bug("this add-on does not have what was called")), status=404)

    async def _call(
        self, name: str, arguments: msgspec.json.Decoder[Any], handler: Handler[S], request: web.Request
    ) -> web.Response:
        if not self._accepts(request):
            return _refused()
        try:
            envelope, args = await _read(request, arguments)
            return _json(result_body(await self._run(name, handler, envelope, args)))
        except Failure as failure:
            return _json(failure_body(failure), status=failure_status(failure))

    async def _run(self, name: str, handler: Handler[S], envelope: Envelope, args: Any) -> msgspec.Struct:
        """The handler's result within the call's deadline; anything unexpected becomes a Bug."""
        call: OpCall[Any] = OpCall(
            credential=Secret(envelope.credential),
            actor=Secret(envelope.actor),
            binding=envelope.binding,
            options=envelope.options,
            state=self._state,
        )
        seconds = min(max(envelope.deadline_seconds, 0.0), _LONGEST_CALL_SECONDS)
        try:
            async with asyncio.timeout(seconds) as limit:
                return await handler(call, args)
        except Failure:
            raise
        except Exception as problem:  # noqa: BLE001 - the edge of foreign code; it becomes a Bug
            if isinstance(problem, TimeoutError) and limit.expired():
                raise _too_late(name, args) from None
            _log_problem(name, problem, secrets=(envelope.credential, envelope.actor))
        raise Bug(f"the add-on failed in {name}")


async def _read(request: web.Request, arguments: msgspec.json.Decoder[Any]) -> tuple[Envelope, Any]:
    try:
        envelope = _envelopes.decode(await request.read())
        return envelope, arguments.decode(envelope.args)
    except web.HTTPRequestEntityTooLarge:
        raise TooLarge("the call is too large for the add-on") from None
    except msgspec.DecodeError as problem:
        # msgspec names the field and the expected type, never the value.
        raise Bug(f"the call does not fit: {problem}") from None


def _too_late(name: str, args: Any) -> Failure:
    """What a passed deadline means: a write may have had its effect."""
    if name in UNREPEATABLE_OPS or (isinstance(args, ToolCall) and args.phase == "apply"):
        return OutcomeUnknown("the platform did not answer in time", operation=getattr(args, "operation", ""))
    return Deadline("the platform did not answer in time")


def _log_problem(name: str, problem: Exception, secrets: tuple[str, ...]) -> None:
    """Type, scrubbed text and code places; no values of variables and no chained exceptions."""
    frames = traceback.extract_tb(problem.__traceback__)[-8:]
    log.error(
        "call_failed",
        call=name,
        problem=type(problem).__name__,
        text=scrub(str(problem), secrets)[:300],
        at=[f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames],
    )


def _json(body: bytes, *, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


def _refused() -> web.Response:
    return web.Response(status=401)
