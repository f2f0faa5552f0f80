"""`trunkline frontend`: one HTTP replica; combined, it hosts the add-ons as well."""

import asyncio
import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services.cli.serving import Parent, ReadyFd, serve
from shared.config import Settings, load
from shared.lifecycle import Stack
from shared.lifecycle.points import gates

if TYPE_CHECKING:
    from services.frontend.app import Frontend

#: seconds between looks at a frontend that has started and is not ready for requests yet
_LOOK = 0.05


def frontend(
    combined: Annotated[
        bool, typer.Option("--combined", help="Host the add-ons in this process too.")
    ] = False,
    ready_fd: ReadyFd = None,
    end_with_parent: Parent = None,
) -> None:
    """Run one frontend: the HTTP API, the pages and the turns. Settings come from the environment."""
    serve(lambda: _compose(load(), combined=combined), ready_fd=ready_fd, parent=end_with_parent)


def _compose(settings: Settings, *, combined: bool) -> "FrontendPart":
    from services.frontend.app import Frontend
    from shared.observe import logs

    logs.configure(settings.log, "frontend")
    if not combined:
        from services.cli.carrier import client

        return FrontendPart(
            Frontend(settings, client(settings.carrier)), *gates(settings.testing.points_socket, "frontend")
        )
    from services.owner.app import Owner
    from shared.carrier import DirectCarrier

    owner = Owner(settings)
    carrier = DirectCarrier(owner.handlers, authorize=owner.authority)
    gate = gates(settings.testing.points_socket, "frontend")
    return FrontendPart(Frontend(settings, carrier, owner.bus), *gate, owner)


class FrontendPart:
    """A frontend, after what its process needs before it: in the combined form the owner."""

    def __init__(self, frontend: "Frontend", *before: Any) -> None:
        self._frontend = frontend
        self._stack = Stack(*before, frontend)

    async def start(self) -> None:
        """Return when `/readyz` says so."""
        await self._stack.start()
        while not (await self._frontend.health.report())["ready"]:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(_LOOK)

    async def stop(self) -> None:
        await self._stack.stop()

    @property
    def facts(self) -> dict[str, Any]:
        return {"id": self._frontend.id, "url": self._frontend.url, "pid": os.getpid()}
