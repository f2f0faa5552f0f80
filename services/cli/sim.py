"""`trunkline sim`: stand-ins of the platforms and of a model server, alone."""

import importlib.util
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services.cli.problems import Refused
from services.cli.serving import Parent, ReadyFd, serve
from shared.config import load

if TYPE_CHECKING:
    from services.simulators import Simulators

#: seconds since 1970 from which the simulators' numbers count
BEGINNING = 1_767_225_600


def sim(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any free one.", min=0, max=65535)] = 0,
    contracts: Annotated[
        Path | None, typer.Option(help="Folder of API descriptions to hold calls against.")
    ] = None,
    validate: Annotated[
        bool, typer.Option("--validate/--no-validate", help="Hold calls against them.")
    ] = True,
    demo_bot: Annotated[
        str | None, typer.Option(help="Token of the bot that the demo page chats with.")
    ] = None,
    ready_fd: ReadyFd = None,
    end_with_parent: Parent = None,
) -> None:
    """Run the simulators: Telegram and an OpenAI-compatible model on one port, for tests and the demo."""

    def compose() -> SimPart:
        from services.simulators import Simulators
        from shared.observe import logs

        logs.configure(load().log, "simulators")
        if validate and contracts is not None:
            _require(contracts)
        # Numbers go on after a restart: a cluster beside this one knows the earlier messages.
        first = int(time.time()) - BEGINNING
        made = Simulators(host, port, validate=validate, contracts=contracts, demo_bot=demo_bot, first=first)
        return SimPart(made, announced=ready_fd is None)

    serve(compose, ready_fd=ready_fd, parent=end_with_parent)


def _require(contracts: Path) -> None:
    """Raises Refused when calls cannot be held against what is in this folder."""
    from services.simulators.contracts import Contracts

    found = Contracts.found_in(contracts)
    if found.telegram is None and found.openai is None:
        raise Refused(
            f"{contracts} holds no API descriptions: give their folder in --contracts, or leave it away"
        )
    if importlib.util.find_spec("jsonschema") is None:
        raise Refused(
            "calls are held against API descriptions with jsonschema, which is not installed: "
            "install it (`make test` does), or leave --contracts away"
        )


class SimPart:
    """The simulators; when nobody reads their facts, the address is printed."""

    def __init__(self, simulators: "Simulators", *, announced: bool) -> None:
        self._simulators = simulators
        self._announced = announced

    async def start(self) -> None:
        """Raises Refused when the port cannot be used."""
        try:
            await self._simulators.start()
        except OSError as problem:
            raise Refused(
                f"the simulators cannot listen there: {problem.strerror}; choose another --port"
            ) from None
        if self._announced:
            print(self._simulators.url, flush=True)

    async def stop(self) -> None:
        await self._simulators.stop()

    @property
    def facts(self) -> dict[str, Any]:
        return {"url": self._simulators.url, "pid": os.getpid()}
