from collections.abc import AsyncIterator

import pytest

from tests.support.simulation import Sim, running


@pytest.fixture
async def sim() -> AsyncIterator[Sim]:
    """Simulators that hold every request and answer against the contracts."""
    async with running() as started:
        yield started


@pytest.fixture
async def lean() -> AsyncIterator[Sim]:
    """Simulators without validation, as the benchmarks use them."""
    async with running(validate=False) as started:
        yield started
