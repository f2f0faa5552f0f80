"""The main of a service process."""

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

#: objects made since the last collection before the next one; the default of 700 runs at every few messages
YOUNG = 20_000


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` on uvloop and return what it returns."""
    gc.set_threshold(YOUNG, 20, 50)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def settle() -> None:
    """Call when the start is over: what was made until now stays, so collections need not look at it again."""
    gc.collect()
    gc.freeze()
