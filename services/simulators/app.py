"""All stand-ins as one application on one port, and the service that runs it."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import structlog
from aiohttp import web

from services.simulators.calls import CallLog
from services.simulators.contracts import Contracts
from services.simulators.control import ChangeStream, PlatformControl
from services.simulators.demo import DemoPage
from services.simulators.model.api import ModelApi
from services.simulators.model.checks import Checks as ModelChecks
from services.simulators.model.control import ModelControl
from services.simulators.model.script import Scripts
from services.simulators.state import Platform, Shared
from services.simulators.telegram.api import TelegramApi
from services.simulators.telegram.checks import Checks as TelegramChecks
from services.simulators.telegram.control import TelegramControl
from services.simulators.telegram.world import World
from shared.lifecycle import Tasks

log = structlog.get_logger(__name__)

MODELS = ("sim-large", "sim-small")
LARGEST_REQUEST = 64 * 1024 * 1024
SHUTDOWN_SECONDS = 0.25
"""Long polls and streams are cut after so long: a client has to bear that at any time."""


def build_app(
    *,
    validate: bool = True,
    contracts: Path | None = None,
    demo_bot: str | None = None,
    models: Sequence[str] = MODELS,
    clock: Callable[[], float] = time.time,
    first: int = 0,
) -> web.Application:
    """The application. With `validate`, requests and answers are held against the descriptions in `contracts`.

    Run it with `handler_cancellation=True`: that is how a waiting call learns that its client went away.
    """
    found = Contracts.found_in(contracts if validate else None)
    app = web.Application(client_max_size=LARGEST_REQUEST)
    shared = Shared(clock=clock, tasks=Tasks("simulators"), first=first)

    async def stop_tasks(_app: web.Application) -> None:
        await shared.tasks.stop()

    app.on_cleanup.append(stop_tasks)
    world = _add_telegram(app.router, shared, found)
    _add_model(app.router, shared, found, models)
    ChangeStream(shared.feed).add_routes(app.router)
    DemoPage(world.bots, demo_bot).add_routes(app.router)
    return app


def _add_telegram(router: web.UrlDispatcher, shared: Shared, contracts: Contracts) -> World:
    platform = Platform("telegram", CallLog(clock=shared.clock))
    world = World(shared)
    checks = TelegramChecks(contracts.telegram) if contracts.telegram else None
    TelegramApi(world, platform, shared, checks).add_routes(router)
    PlatformControl(platform).add_routes(router)
    TelegramControl(world, shared, checks).add_routes(router)
    return world


def _add_model(
    router: web.UrlDispatcher, shared: Shared, contracts: Contracts, models: Sequence[str]
) -> None:
    platform = Platform("model", CallLog(clock=shared.clock))
    scripts = Scripts()
    checks = ModelChecks(contracts.openai) if contracts.openai else None
    api = ModelApi(platform, shared, scripts, models=models, checks=checks)
    api.add_routes(router)
    PlatformControl(platform).add_routes(router)
    ModelControl(api, scripts).add_routes(router)


class Simulators:
    """All stand-ins on one port; a `Service`. Port 0 takes any free one, `url` tells which after `start`."""

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        validate: bool = True,
        contracts: Path | None = None,
        demo_bot: str | None = None,
        models: Sequence[str] = MODELS,
        clock: Callable[[], float] = time.time,
        first: int = 0,
    ) -> None:
        self._host = host
        self._port = port
        self._app = build_app(
            validate=validate,
            contracts=contracts,
            demo_bot=demo_bot,
            models=models,
            clock=clock,
            first=first,
        )
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self) -> None:
        runner = web.AppRunner(
            self._app, handler_cancellation=True, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port, backlog=1024).start()
        except BaseException:
            await runner.cleanup()
            raise
        self._runner = runner
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        log.info("simulators_ready", url=self.url)

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
