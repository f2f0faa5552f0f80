from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from shared.bus import Bus, MemoryBus, NatsBus
from tests.support.nats import NatsServer


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsServer]:
    """A server that has not started yet."""
    made = NatsServer(tmp_path)
    yield made
    made.kill()


@pytest.fixture(params=["memory", "nats"])
async def bus(request: pytest.FixtureRequest) -> AsyncIterator[Bus]:
    made: Bus = MemoryBus()
    if request.param == "nats":
        server: NatsServer = request.getfixturevalue("nats")
        await server.start()
        made = NatsBus(server.url)
    await made.start()
    yield made
    await made.stop()
