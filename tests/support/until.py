"""Waiting for a condition that no signal tells."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], *, within: float = 10.0) -> None:
    """Return when `condition` holds; fail when it does not hold `within` seconds."""
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)
