import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvloop

from shared.carrier import (
    CarrierClient,
    CarrierServer,
    ClientIdentity,
    DirectCarrier,
    ServerIdentity,
)
from shared.carrier.certs import issue, make_ca
from shared.carrier.streams import Streams
from shared.lifecycle import Stack
from tests.contract.carrier.samples import Owner
from tests.support.until import until

FRAME_LIMIT = 64 * 1024
MAX_IN_FLIGHT = 40


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Services run on uvloop; the standard loop is what remains where it is not available."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@dataclass
class Pki:
    """A private CA with one owner and one frontend."""

    folder: Path

    def server(self, **more: Any) -> ServerIdentity:
        made = issue(self.folder, "owner", "main")
        return ServerIdentity(made.certificate, made.key, made.ca, **more)

    def client(self, name: str = "a", **more: Any) -> ClientIdentity:
        made = issue(self.folder, "frontend", name)
        return ClientIdentity(made.certificate, made.key, made.ca, **more)


@pytest.fixture
def pki(tmp_path: Path) -> Pki:
    folder = tmp_path / "pki"
    make_ca(folder)
    return Pki(folder)


@pytest.fixture
async def owner(tmp_path: Path) -> Owner:
    (tmp_path / "streams").mkdir()
    return Owner(Streams(tmp_path / "streams", size_limit=16 * 1024 * 1024))


@pytest.fixture
async def server(owner: Owner, pki: Pki) -> AsyncIterator[CarrierServer]:
    made = CarrierServer(
        owner.handlers(), identity=pki.server(), authorize=owner.authorize, streams=owner.streams,
        max_in_flight_per_peer=MAX_IN_FLIGHT, frame_limit=FRAME_LIMIT, stop_grace=0.0,
    )  # fmt: skip
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def client(server: CarrierServer, pki: Pki) -> AsyncIterator[CarrierClient]:
    made = CarrierClient("127.0.0.1", server.port, pki.client(), frame_limit=FRAME_LIMIT, connect_grace=5.0)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture(params=["wire", "direct"])
async def carrier(
    request: pytest.FixtureRequest, owner: Owner, pki: Pki
) -> AsyncIterator[CarrierClient | DirectCarrier]:
    """The same owner, behind the wire and in the same process."""
    if request.param == "wire":
        server = CarrierServer(
            owner.handlers(), identity=pki.server(), authorize=owner.authorize, streams=owner.streams,
            max_in_flight_per_peer=MAX_IN_FLIGHT, frame_limit=FRAME_LIMIT, stop_grace=0.0,
        )  # fmt: skip
        await server.start()
        client = CarrierClient(
            "127.0.0.1", server.port, pki.client("frontend"), frame_limit=FRAME_LIMIT, connect_grace=5.0
        )
        stack = Stack(client)
        await stack.start()
        # A call is to spend its deadline on the call: the first handshake is long on a busy machine.
        await until(lambda: client.connected)
        yield client
        await stack.stop()
        await server.stop()
    else:
        direct = DirectCarrier(
            owner.handlers(), authorize=owner.authorize, streams=owner.streams,
            max_in_flight_per_peer=MAX_IN_FLIGHT, frame_limit=FRAME_LIMIT, stop_grace=0.0,
        )  # fmt: skip
        await direct.start()
        yield direct
        await direct.stop()
