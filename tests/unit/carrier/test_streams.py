from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.carrier import Peer
from shared.carrier.streams import Streams
from shared.domain.errors import Denied

PEER = Peer("frontend", "a")
EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


async def nothing() -> AsyncIterator[bytes]:
    for chunk in list[bytes]():
        yield chunk


def files(folder: Path) -> int:
    return len(list(folder.iterdir()))


async def test_a_ticket_expires(tmp_path: Path) -> None:
    streams = Streams(tmp_path, lifetime=-1.0)
    ticket = streams.expect(0, EMPTY_SHA256, PEER)
    with pytest.raises(Denied, match="has expired"):
        await streams.receive(ticket.handle, PEER, nothing())


async def test_a_file_that_is_not_taken_in_time_is_deleted(tmp_path: Path) -> None:
    now = 100.0
    streams = Streams(tmp_path, lifetime=10.0, clock=lambda: now)
    ticket = streams.expect(0, EMPTY_SHA256, PEER)
    await streams.receive(ticket.handle, PEER, nothing())
    assert files(tmp_path) == 1
    now = 111.0
    with pytest.raises(Denied):
        streams.take(ticket.handle, PEER)
    streams.expect(0, EMPTY_SHA256, PEER)
    assert files(tmp_path) == 0


async def test_a_ticket_is_for_its_peer_and_instance(tmp_path: Path) -> None:
    streams = Streams(tmp_path)
    ticket = streams.expect(0, EMPTY_SHA256, PEER)
    for other in (Peer("frontend", "b"), Peer("frontend", "a", "2"), Peer("owner", "a")):
        with pytest.raises(Denied):
            await streams.receive(ticket.handle, other, nothing())
    await streams.receive(ticket.handle, PEER, nothing())
