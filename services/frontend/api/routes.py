"""How a resource declares its routes, and how a declared route becomes an aiohttp handler.

A handler is `async def create(call: Call, body: AgentNew) -> AgentView`: the type of its second parameter is the
body, its return type the reply (None: 204 without a body; a StreamResponse goes out as it is). So every route is
declared once, and the server, the checks and `GET /openapi.json` read the same declaration.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_type_hints

import msgspec
from aiohttp import web

from services.frontend.api.call import Call
from services.frontend.api.errors import ApiError, invalid, of_validation
from services.frontend.api.identity import admitted

#: `anyone` needs no sign-in, `user` any, `admin` the role; the rest are features of the account
Authority = Literal["anyone", "user", "admin", "chats", "agents", "connectors", "addons"]
#: largest body of a request, in bytes
LARGEST_BODY = 1024 * 1024

_NULL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


@dataclass(frozen=True)
class Route:
    """One address and method. `query` names what its address may carry; `browser` refuses API keys."""

    method: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    summary: str
    authority: Authority = "user"
    status: int = 200
    query: tuple[str, ...] = ()
    browser: bool = False

    @cached_property
    def body(self) -> type[msgspec.Struct] | None:
        hints = [kind for name, kind in self._hints.items() if name not in {"call", "return"}]
        return hints[0] if hints else None

    @cached_property
    def reply(self) -> type[msgspec.Struct] | None:
        """None for no content, and for what is not JSON."""
        kind = self._hints["return"]
        return None if kind is type(None) or issubclass(kind, web.StreamResponse) else kind

    @property
    def streams(self) -> bool:
        """Whether the answer is a stream of events."""
        return issubclass(self._hints["return"], web.StreamResponse)

    @property
    def parameters(self) -> list[str]:
        """The names in the path, such as `id`."""
        return re.findall(r"\{(\w+)\}", self.path)

    @property
    def tag(self) -> str:
        """The resource: the module that answers."""
        return self.handler.__module__.rpartition(".")[2]

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return get_type_hints(self.handler)

    def bind(self) -> web.RouteDef:
        return web.route(self.method, self.path, self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        signed_in = await admitted(request, self.authority, browser=self.browser)
        call = Call(request, signed_in)
        arguments = [call] if self.body is None else [call, await _body(request, self.body)]
        reply = await self.handler(*arguments)
        if isinstance(reply, web.StreamResponse):
            return reply
        if reply is None:
            return web.Response(status=204)
        # What one person may see is kept by no cache on the way.
        return web.Response(
            status=self.status,
            body=msgspec.json.encode(reply),
            content_type="application/json",
            headers={"Cache-Control": "no-store", **call.headers},
        )


async def _body(request: web.Request, kind: type[msgspec.Struct]) -> msgspec.Struct:
    if request.content_type != "application/json":
        raise ApiError(415, "unsupported_media_type", "send JSON, with Content-Type: application/json")
    raw = await request.read()
    if _NULL.search(raw):
        raise invalid("text must not hold the null character")
    try:
        return msgspec.json.decode(raw or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        if isinstance(problem, UnicodeDecodeError):
            raise invalid("the body is not UTF-8") from None
        raise of_validation(problem) from None
