"""`python -m services.simulators`: the simulators alone, until SIGTERM or SIGINT."""

import argparse
from pathlib import Path

import uvloop

from services.simulators.app import Simulators
from shared.lifecycle import stop_event


async def serve(simulators: Simulators) -> None:
    """Run until the process is asked to end."""
    stopped = stop_event()
    await simulators.start()
    try:
        await stopped.wait()
    finally:
        await simulators.stop()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m services.simulators", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument("--contracts", type=Path, help="folder of API descriptions to hold calls against")
    parser.add_argument("--no-validate", action="store_true", help="leave the descriptions aside")
    parser.add_argument("--demo-bot", help="token of the bot that the page chats with")
    chosen = parser.parse_args()
    simulators = Simulators(
        chosen.host,
        chosen.port,
        validate=not chosen.no_validate,
        contracts=chosen.contracts,
        demo_bot=chosen.demo_bot,
    )
    uvloop.run(serve(simulators))


if __name__ == "__main__":
    main()
