"""`trunkline doctor`: whether everything that Trunkline needs is there, with what to do where it is not."""

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from shared.config import ConfigProblems, Settings, load

if TYPE_CHECKING:
    from services.cli import checks


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Check the settings, the database, NATS, the carrier, the model server and the data folder."""
    from services.cli import checks
    from shared.config.sections import Log
    from shared.observe import logs

    logs.configure(Log(level="error"), "doctor")
    try:
        settings = load()
    except ConfigProblems as problems:
        found = [checks.Result("settings", "failed", problem, "") for problem in problems.problems]
    else:
        found = [checks.Result("settings", "ok", "all settings can be used", "")]
        found += asyncio.run(_examine(settings))
    if as_json:
        print(json.dumps([result.as_json() for result in found], indent=2))
    else:
        _show(found)
    if any(result.state == "failed" for result in found):
        sys.exit(1)


async def _examine(settings: Settings) -> "list[checks.Result]":
    from services.cli import checks

    groups = await asyncio.gather(*(check(settings) for check in checks.ALL))
    return [result for group in groups for result in group]


def _show(found: "list[checks.Result]") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    marks = {"ok": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "dim")}
    table = Table(box=None, show_header=False, padding=(0, 1))
    table.add_column()
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for result in found:
        text = Text(result.sentence)
        if result.fix:
            text.append(f"\n→ {result.fix}", style="yellow")
        table.add_row(Text(*marks[result.state]), result.name, text)
    Console(highlight=False).print(table)
