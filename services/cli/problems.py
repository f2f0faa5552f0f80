"""What may go wrong at a start, as sentences for the person who started it.

Exit codes: 2 for settings and usage, 1 for what surrounds the program. Anything that is not expected here is a bug
and keeps its traceback.
"""

import sys

CONFIG, ENVIRONMENT = 2, 1


class Refused(Exception):
    """The command cannot do its work; the text says why and what to do."""

    def __init__(self, text: str, *, code: int = ENVIRONMENT) -> None:
        super().__init__(text)
        self.code = code


def expected(problem: BaseException) -> Refused | None:
    """The problem as a refusal with its exit code; None for a bug."""
    from shared.config import ConfigProblems

    if isinstance(problem, Refused):
        return problem
    if isinstance(problem, ConfigProblems):
        return Refused("\n".join(problem.problems), code=CONFIG)
    if isinstance(problem, _surroundings()):
        return Refused(str(problem))
    return None


def report(refused: Refused) -> None:
    """Write it to standard error, one line a problem."""
    for line in str(refused).splitlines():
        print(f"trunkline: {line}", file=sys.stderr)


def _surroundings() -> tuple[type[Exception], ...]:
    """The expected failures of all services; asked for only once one of them is there."""
    from services.cli.local.engine import EngineFailed
    from services.owner.root import RootUnusable, SecondOwner
    from shared.observe.port import PortTaken
    from shared.sealing import KeyFileRefused
    from shared.store import StoreUnavailable

    return (EngineFailed, RootUnusable, SecondOwner, PortTaken, KeyFileRefused, StoreUnavailable)
