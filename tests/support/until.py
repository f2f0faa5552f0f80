"""Waiting for a condition that no signal tells."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


async def until(condition: Callable[[], bool], *, within: float = 10.0) -> None:
    """Return when `condition` holds; fail when it does not hold `within` seconds."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)


async def until_answer(ask: Callable[[], Awaitable[Any]], *, within: float = 10.0) -> Any:
    """The first answer of `ask` that is true; fail when there is none `within` seconds."""
    async with asyncio.timeout(within):
        while not (answer := await ask()):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.02)
        return answer
