"""The HTTP side of the Bot API: `/bot<token>/<method>` and `/file/bot<token>/<path>`."""

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web

from services.simulators.calls import UNANSWERED, Call
from services.simulators.faults import Fault, inflict
from services.simulators.state import Platform, Shared
from services.simulators.telegram.bots import Bot
from services.simulators.telegram.checks import Checks
from services.simulators.telegram.errors import ApiError
from services.simulators.telegram.media import Upload
from services.simulators.telegram.methods import METHODS, NAMES, Described
from services.simulators.telegram.requests import read_params
from services.simulators.telegram.world import World

Params = dict[str, Any]
Result = Callable[[], Awaitable[Any]]


class TelegramApi:
    """Answers bots; `checks` is None when nothing is to be validated."""

    def __init__(self, world: World, platform: Platform, shared: Shared, checks: Checks | None) -> None:
        self._world = world
        self._platform = platform
        self._tasks = shared.tasks
        self._checks = checks

    def add_routes(self, router: web.UrlDispatcher) -> None:
        for verb in ("GET", "POST"):
            router.add_route(verb, "/bot{token}/{method}", self.handle)
        router.add_route("GET", "/file/bot{token}/{path:.+}", self.download)
        router.add_route("*", "/bot{rest:.*}", self.not_found)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["method"]
        method = NAMES.get(name.lower(), name)
        token = request.match_info["token"]
        params: Params = {}
        problem: ApiError | None = None
        try:
            params = await read_params(request)
        except ApiError as unreadable:
            problem = unreadable
        bot = self._world.bots.named(token)
        chat = params.get("chat_id")
        call = self._platform.calls.received(
            method,
            orjson.dumps(params, default=_logged, option=orjson.OPT_PASSTHROUGH_DATACLASS),
            bot=bot.id if bot else None,
            chat=chat if isinstance(chat, int) else None,
        )
        run = partial(self._run, method, token, params, problem)
        return await self._answered(request, call, run)

    async def _answered(self, request: web.Request, call: Call, run: Result) -> web.StreamResponse:
        """Run the call, or let the fault have it that waits for such a call; the log learns the status."""
        status = UNANSWERED
        try:
            fault = self._platform.faults.take(call.method, bot=call.bot, chat=call.chat)
            if fault is None:
                response: web.StreamResponse | None = await self._respond(call.method, run)
            else:
                response = await inflict(
                    fault,
                    request,
                    partial(self._respond, call.method, run),
                    tasks=self._tasks,
                    outlives_client=call.method != "getUpdates",
                    default_body=_standard_body,
                )
            status = response.status if response is not None else UNANSWERED
            return response or web.Response(status=502)
        finally:
            self._platform.calls.answered(call, status)

    async def _respond(self, method: str, run: Result) -> web.Response:
        try:
            result = await run()
            body = _success(result)
            if self._checks is not None:
                self._checks.answer(method, body)
        except ApiError as problem:
            return _failure(problem)
        return web.Response(body=body, content_type="application/json")

    async def _run(self, method: str, token: str, params: Params, problem: ApiError | None) -> Any:
        bot = self._world.bots.by_token(token)
        if problem is not None:
            raise problem
        if method.lower() not in NAMES:
            raise ApiError(404, "Not Found: method not found")
        if self._checks is not None:
            self._checks.request(method, params)
        if method == "getUpdates":
            return await bot.updates.poll(params)
        return self._act(method, bot, params)

    def _act(self, method: str, bot: Bot, params: Params) -> Any:
        """Without validation a badly typed parameter surfaces here; it is the caller's mistake all the same."""
        try:
            return METHODS[method](self._world, bot, params)
        except (TypeError, KeyError, AttributeError) as problem:
            raise ApiError(400, f"Bad Request: a parameter has the wrong type ({problem})") from problem

    async def download(self, request: web.Request) -> web.StreamResponse:
        try:
            self._world.bots.by_token(request.match_info["token"])
        except ApiError as problem:
            return _failure(problem)
        stored = self._world.files.at_path(request.match_info["path"])
        if stored is None:
            return _failure(ApiError(404, "Not Found"))
        return web.Response(body=stored.upload.content, content_type="application/octet-stream")

    async def not_found(self, _request: web.Request) -> web.StreamResponse:
        return _failure(ApiError(404, "Not Found"))


def _success(result: Any) -> bytes:
    if isinstance(result, Described):
        return orjson.dumps({"ok": True, "result": result.result, "description": result.description})
    return b'{"ok":true,"result":' + orjson.dumps(result) + b"}"


def _failure(problem: ApiError) -> web.Response:
    retry = problem.parameters.get("retry_after")
    headers = {"Retry-After": str(retry)} if retry is not None else None
    body = orjson.dumps(problem.body())
    return web.Response(status=problem.code, body=body, headers=headers, content_type="application/json")


def _standard_body(fault: Fault) -> Any:
    """What the platform says with a status when the fault names no body."""
    status = fault.status or 500
    if status == HTTPStatus.OK:
        return {"ok": True, "result": True}
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        named = {name.lower(): value for name, value in fault.headers.items()}
        seconds = named.get("retry-after", "1")
        wait = int(seconds) if seconds.isdigit() else 1
        return ApiError(status, f"Too Many Requests: retry after {wait}", retry_after=wait).body()
    try:
        return ApiError(status, HTTPStatus(status).phrase).body()
    except ValueError:
        return ApiError(status, "Error").body()


def _logged(value: Any) -> Any:
    if isinstance(value, Upload):
        return value.as_json()
    raise TypeError(type(value).__name__)
