"""`trunkline owner`: the one process that hosts the add-ons."""

import errno
import os
from typing import TYPE_CHECKING, Any

from services.cli.problems import Refused
from services.cli.serving import Parent, ReadyFd, serve
from shared.config import Settings, load
from shared.lifecycle import Stack
from shared.lifecycle.points import gates

if TYPE_CHECKING:
    from shared.carrier import CarrierServer


def owner(ready_fd: ReadyFd = None, end_with_parent: Parent = None) -> None:
    """Run the owner of the add-ons. Settings come from the environment."""
    serve(lambda: _compose(load()), ready_fd=ready_fd, parent=end_with_parent)


def _compose(settings: Settings) -> "OwnerPart":
    from aiohttp import web

    from services.cli.carrier import server_identity
    from services.owner.app import Owner
    from shared.carrier import CarrierServer
    from shared.observe import logs
    from shared.observe.http import HttpServer

    logs.configure(settings.log, "owner")
    owner = Owner(settings)
    server = CarrierServer(
        owner.handlers,
        identity=server_identity(settings.carrier),
        authorize=owner.authority,
        host=settings.carrier.host,
        port=settings.carrier.port,
    )
    app = web.Application()
    app.add_routes(owner.health.routes())
    where = settings.owner
    http = HttpServer(app, where.http_host, where.http_port, chosen_by="TRUNKLINE_OWNER_HTTP_PORT")
    gate = gates(settings.testing.points_socket, "owner")
    return OwnerPart(*gate, http, Listening(server, settings), owner, http=http)


class Listening:
    """The carrier's listener, whose port may be taken. A Service."""

    def __init__(self, server: "CarrierServer", settings: Settings) -> None:
        self._server = server
        self._settings = settings.carrier

    async def start(self) -> None:
        """Raises Refused."""
        try:
            await self._server.start()
        except OSError as problem:
            where = f"{self._settings.host}:{self._settings.port}"
            if problem.errno == errno.EADDRINUSE:
                raise Refused(
                    f"the carrier's port {where} is taken by another program: choose another in TRUNKLINE_CARRIER_PORT"
                ) from None
            raise Refused(f"the carrier cannot listen on {where}: {problem.strerror}") from None

    async def stop(self) -> None:
        await self._server.stop()


class OwnerPart:
    """Health and the carrier listen before the owner is ready, so that whoever asks hears that it is starting."""

    def __init__(self, *parts: Any, http: Any) -> None:
        self._http = http
        self._stack = Stack(*parts)

    async def start(self) -> None:
        await self._stack.start()

    async def stop(self) -> None:
        await self._stack.stop()

    @property
    def facts(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "url": self._http.url}
