"""Bytes of files beside the calls."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.carrier import Carrier, CarrierClient, CarrierServer, Peer
from shared.carrier.streams import Ticket
from shared.domain import errors
from tests.contract.carrier import samples
from tests.contract.carrier.conftest import FRAME_LIMIT, Pki
from tests.contract.carrier.samples import Agreement, Owner, Text

BYTES = bytes(range(256)) * 8 * 1024
"""Two megabytes: much more than a call may carry."""
FRONTEND = Peer("frontend", "frontend")


async def chunks(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 100_000):
        yield data[start : start + 100_000]


async def agreed(carrier: Carrier, data: bytes) -> Ticket:
    agreement = Agreement(len(data), hashlib.sha256(data).hexdigest())
    return (await carrier.call(samples.SEND, agreement)).ticket


async def fetched(carrier: Carrier, ticket: Ticket) -> bytes:
    return b"".join([chunk async for chunk in carrier.download(ticket)])


@pytest.mark.parametrize("data", [BYTES, b""], ids=["large", "empty"])
async def test_a_file_is_sent_and_taken_once(carrier: Carrier, owner: Owner, data: bytes) -> None:
    ticket = await agreed(carrier, data)
    await carrier.upload(ticket, chunks(data))
    path = owner.streams.take(ticket.handle, FRONTEND)
    assert path.read_bytes() == data
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(errors.Denied):
        owner.streams.take(ticket.handle, FRONTEND)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [(BYTES[:-1], errors.Bug), (BYTES[:-1] + b"!", errors.Bug), (BYTES + b"!", errors.TooLarge)],
    ids=["short", "changed", "long"],
)
async def test_a_file_other_than_agreed_is_refused_and_deleted(
    carrier: Carrier, owner: Owner, tmp_path: Path, sent: bytes, expected: type[errors.Failure]
) -> None:
    ticket = await agreed(carrier, BYTES)
    with pytest.raises(expected):
        await carrier.upload(ticket, chunks(sent))
    with pytest.raises(errors.Denied):
        owner.streams.take(ticket.handle, FRONTEND)
    assert list((tmp_path / "streams").iterdir()) == []


async def test_a_file_over_the_limit_is_refused_before_it_is_sent(carrier: Carrier) -> None:
    with pytest.raises(errors.TooLarge):
        await carrier.call(samples.SEND, Agreement(17 * 1024 * 1024, ""))


async def test_a_file_is_fetched_once(carrier: Carrier, owner: Owner, tmp_path: Path) -> None:
    owner.offered = tmp_path / "offered"
    owner.offered.write_bytes(BYTES)
    ticket = (await carrier.call(samples.FETCH, Text())).ticket
    assert ticket.size == len(BYTES)
    assert await fetched(carrier, ticket) == BYTES
    with pytest.raises(errors.Denied):
        await fetched(carrier, ticket)


async def test_a_file_that_changed_since_the_offer_is_not_taken_for_it(
    carrier: Carrier, owner: Owner, tmp_path: Path
) -> None:
    owner.offered = tmp_path / "offered"
    owner.offered.write_bytes(BYTES)
    ticket = (await carrier.call(samples.FETCH, Text())).ticket
    owner.offered.write_bytes(BYTES[::-1])
    with pytest.raises(errors.Bug):
        await fetched(carrier, ticket)


async def test_a_ticket_is_for_its_direction(carrier: Carrier) -> None:
    ticket = await agreed(carrier, BYTES)
    with pytest.raises(errors.Denied):
        await fetched(carrier, ticket)


async def test_a_ticket_of_another_peer_is_refused(
    client: CarrierClient, server: CarrierServer, pki: Pki
) -> None:
    other = CarrierClient(
        "127.0.0.1", server.port, pki.client("b"), frame_limit=FRAME_LIMIT, connect_grace=5.0
    )
    await other.start()
    ticket = await agreed(client, BYTES)
    with pytest.raises(errors.Denied):
        await other.upload(ticket, chunks(BYTES))
    await client.upload(ticket, chunks(BYTES))
    await other.stop()


async def test_files_that_nobody_took_end_with_the_owner(
    client: CarrierClient, server: CarrierServer, tmp_path: Path
) -> None:
    ticket = await agreed(client, BYTES)
    await client.upload(ticket, chunks(BYTES))
    await server.stop()
    assert list((tmp_path / "streams").iterdir()) == []
    with pytest.raises(errors.OwnerUnreachable):
        await client.upload(ticket, chunks(BYTES))
