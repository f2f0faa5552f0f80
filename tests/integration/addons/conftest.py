from collections.abc import AsyncIterator

import pytest

from services.addons import telegram
from shared.sdk.harness import AddonHarness
from tests.support.simulation import Sim, running


@pytest.fixture
async def sim() -> AsyncIterator[Sim]:
    """Simulators that hold every request and answer against the contracts."""
    async with running() as started:
        yield started


@pytest.fixture
async def addon(sim: Sim) -> AsyncIterator[AddonHarness]:
    """The Telegram add-on, pointed at the simulator as an operator would."""
    async with AddonHarness(telegram, settings={"telegram_api": sim.url}) as started:
        yield started
