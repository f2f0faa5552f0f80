"""The `trunkline` command."""

import sys
from typing import Annotated

import typer

from services.cli import certs, doctor, frontend, migrate, owner, prepare, sim, status, up
from services.cli.problems import expected, report
from shared.version import VERSION

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Connects saved AI agents to the places where people already are.",
)
app.command()(up.up)
app.command()(status.status)
app.command()(doctor.doctor)
app.command()(frontend.frontend)
app.command()(owner.owner)
app.command()(certs.certs)
app.command()(migrate.migrate)
app.command()(sim.sim)
app.command(hidden=True)(prepare.prepare)


@app.callback(invoke_without_command=True)
def version(
    shown: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if shown:
        print(VERSION)
        raise typer.Exit


def main() -> None:
    """Run the command; an expected problem is a sentence and an exit code, never a traceback."""
    try:
        app()
    except Exception as problem:
        refused = expected(problem)
        if refused is None:
            raise
        report(refused)
        sys.exit(refused.code)
