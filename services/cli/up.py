"""`trunkline up`: a whole cluster on one machine."""

import asyncio
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from services.cli.problems import CONFIG, Refused
from shared.config import Settings, load

if TYPE_CHECKING:
    from services.cli.local.folder import DataFolder
    from services.cli.local.plan import Plan


def up(
    data: Annotated[
        Path | None, typer.Option(help="Folder that keeps everything; without one, nothing survives.")
    ] = None,
    frontends: Annotated[int, typer.Option(help="Number of frontends.", min=1, max=32)] = 1,
    port: Annotated[
        int | None,
        typer.Option(
            help="Port of the first frontend; 0 takes any free one.",
            min=0,
            max=65535,
            show_default="that of the settings, 8080",
        ),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Add simulators, a model, a sample agent and binding.")
    ] = False,
    combined: Annotated[bool, typer.Option("--combined", help="Frontend and owner in one process.")] = False,
    validate: Annotated[
        bool,
        typer.Option("--validate/--no-validate", help="Simulators hold calls against the API descriptions."),
    ] = True,
    contracts: Annotated[Path | None, typer.Option(help="Folder of those descriptions.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print run.json when everything is ready.")] = False,
    fast_database: Annotated[bool, typer.Option("--fast-database", hidden=True)] = False,
) -> None:
    """Start everything on this machine: Postgres and NATS unless addresses are set, the owner, the frontends."""
    from services.cli.local.plan import Plan

    if combined and frontends > 1:
        raise Refused("--combined is one process: leave --frontends away", code=CONFIG)
    settings = load()
    first = settings.http.port if port is None else port
    plan = Plan(frontends, first, demo, combined, contracts if validate else None, fast_database)
    asyncio.run(_up(plan, settings, data, as_json=as_json))


async def _up(plan: "Plan", settings: Settings, data: Path | None, *, as_json: bool) -> None:
    from services.cli.local.cluster import LocalCluster
    from services.cli.local.folder import DataFolder
    from services.cli.local.screen import Screen
    from services.cli.serving import Interrupts

    interrupts = Interrupts(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    screen = Screen(for_program=as_json)
    if plan.fast_database:
        screen.say("--fast-database: a crash of this machine can lose data; for tests only")
    folder = DataFolder(data)
    with folder.held():
        cluster = LocalCluster(plan, settings, folder, listener=screen.part, warn=screen.warn)
        try:
            with interrupts.breaking_off():
                await cluster.start()
            if not interrupts.stopped.is_set():
                screen.ready(cluster.facts(), _where(folder))
                if as_json:
                    print(json.dumps(cluster.facts()), flush=True)
            await interrupts.stopped.wait()
            screen.say("stopping (again: at once)")
        finally:
            screen.over()
            await cluster.stop()


def _where(folder: "DataFolder") -> str:
    return f"{folder.path}" + (" (temporary: deleted at the end)" if folder.temporary else "")
