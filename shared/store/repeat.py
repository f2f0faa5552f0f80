"""Work that goes on through outages of the database: one failed try must not be the last."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import structlog

from shared.store.database import StoreUnavailable

log = structlog.get_logger(__name__)


async def attempt(name: str, work: Callable[[], Awaitable[object]]) -> None:
    """Do `work` once; a failure is logged under `name` and ends nothing."""
    try:
        await work()
    except StoreUnavailable as problem:
        log.info("waiting_for_the_database", work=name, problem=str(problem))
    except Exception:
        log.exception("work_failed", work=name)


async def repeat(name: str, seconds: float, work: Callable[[], Awaitable[object]]) -> None:
    """Do `work` for ever, about `seconds` apart, so that many processes do not knock together."""
    while True:
        await attempt(name, work)
        await asyncio.sleep(seconds * random.uniform(0.9, 1.1))  # noqa: S311 - spreads the processes
