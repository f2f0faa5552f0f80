"""What only a wire does: it breaks, falls silent, fills up and comes back."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from shared.carrier import CarrierClient, CarrierServer, Operation
from shared.domain import errors
from tests.contract.carrier import samples
from tests.contract.carrier.conftest import FRAME_LIMIT, Pki
from tests.contract.carrier.samples import Count, Owner, Text
from tests.support.proxy import Relay
from tests.support.until import until

HELD = [
    (samples.READ, errors.OwnerUnreachable),
    (samples.WRITE, errors.OutcomeUnknown),
    (samples.SAFE_WRITE, errors.OwnerUnreachable),
]


@pytest.fixture
async def relay(server: CarrierServer) -> AsyncIterator[Relay]:
    made = Relay(server.port)
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
async def far(relay: Relay, pki: Pki) -> AsyncIterator[CarrierClient]:
    """A client behind the relay, with one connection and short pauses."""
    made = CarrierClient(
        "127.0.0.1", relay.port, pki.client(), connections=1, frame_limit=FRAME_LIMIT,
        heartbeat=0.4, connect_grace=5.0, connect_timeout=1.0, backoff=(0.01, 0.05),
    )  # fmt: skip
    await made.start()
    assert await made.call(samples.ECHO, Text("up")) == Text("up")
    yield made
    await made.stop()


@pytest.mark.parametrize(("operation", "expected"), HELD, ids=lambda value: getattr(value, "name", None))
async def test_a_lost_connection_says_what_is_known(
    far: CarrierClient,
    relay: Relay,
    owner: Owner,
    operation: Operation[Text, Text],
    expected: type[errors.Failure],
) -> None:
    call = asyncio.gather(far.call(operation, Text("x"), operation="op-9"), return_exceptions=True)
    await owner.entered.get()
    relay.cut()
    (outcome,) = await call
    assert type(outcome) is expected
    assert getattr(outcome, "operation", "op-9") == "op-9"


async def test_a_lost_connection_is_not_a_cancel_and_nothing_is_repeated(
    far: CarrierClient, relay: Relay, owner: Owner
) -> None:
    call = asyncio.gather(far.call(samples.WRITE, Text("kept")), return_exceptions=True)
    await owner.entered.get()
    relay.cut()
    await call
    assert await far.call(samples.ECHO, Text("back")) == Text("back")
    owner.gate.set()
    await until(lambda: owner.running == 0)
    assert owner.finished == ["kept"]
    assert owner.cancelled.empty()
    assert owner.entered.empty()


async def test_a_call_that_never_left_was_not_executed(relay: Relay, pki: Pki) -> None:
    """The other end accepts and stays silent: there is no connection to send on."""
    relay.freeze()
    client = CarrierClient("127.0.0.1", relay.port, pki.client(), connect_grace=0.05)
    await client.start()
    with pytest.raises(errors.OwnerUnreachable):
        await client.call(samples.WRITE, Text(), operation="op-1")
    await client.stop()


async def test_a_write_that_waits_for_room_on_a_frozen_link_was_not_executed(
    far: CarrierClient, relay: Relay, owner: Owner
) -> None:
    """What fits into buffers may have left; what still waited for room has not, and is told apart."""
    relay.freeze()
    text = Text("x" * (FRAME_LIMIT - 100))
    calls = [far.call(samples.WRITE, text, deadline=20.0) for _ in range(400)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    unknown = sum(isinstance(outcome, errors.OutcomeUnknown) for outcome in outcomes)
    unsent = sum(isinstance(outcome, errors.OwnerUnreachable) for outcome in outcomes)
    assert unknown + unsent == len(outcomes)
    assert unsent > 0
    assert unknown >= len(owner.finished)


async def test_an_owner_that_is_away_at_start_is_found_later(owner: Owner, pki: Pki) -> None:
    relay = Relay(1)
    relay.refusing = True
    await relay.start()
    client = CarrierClient("127.0.0.1", relay.port, pki.client(), connect_grace=0.05, backoff=(0.01, 0.05))
    await client.start()
    with pytest.raises(errors.OwnerUnreachable):
        await client.call(samples.ECHO, Text())
    server = CarrierServer(owner.handlers(), identity=pki.server(), authorize=owner.authorize)
    await server.start()
    relay.target, relay.refusing = server.port, False
    await until(lambda: client.connected)
    assert await client.call(samples.ECHO, Text("found")) == Text("found")
    await client.stop()
    await server.stop()
    await relay.stop()


async def test_a_silent_link_is_noticed_and_replaced(far: CarrierClient, relay: Relay, owner: Owner) -> None:
    call = asyncio.gather(far.call(samples.READ, Text(), deadline=60), return_exceptions=True)
    await owner.entered.get()
    relay.freeze()
    (outcome,) = await call
    assert isinstance(outcome, errors.OwnerUnreachable)
    relay.thaw()
    assert await far.call(samples.ECHO, Text("again")) == Text("again")


async def test_a_frozen_link_is_replaced_by_a_new_one_while_the_old_one_stays_frozen(
    far: CarrierClient, relay: Relay
) -> None:
    """Within one and a half heartbeats and a pause: 15 s and at most 2 s where nothing else is said."""
    opened = relay.accepted
    relay.freeze_open()
    await until(lambda: relay.accepted > opened)
    await until(lambda: far.connected)
    assert await far.call(samples.ECHO, Text("over a new one")) == Text("over a new one")


async def test_a_frontend_that_stands_still_is_lost_and_not_called_garbled(owner: Owner, pki: Pki) -> None:
    server = CarrierServer(
        owner.handlers(), identity=pki.server(), authorize=owner.authorize, heartbeat=0.2, stop_grace=0.0
    )
    await server.start()
    relay = Relay(server.port)
    await relay.start()
    client = CarrierClient("127.0.0.1", relay.port, pki.client(), connections=1, backoff=(0.01, 0.05))
    await client.start()
    with capture_logs() as logged:
        call = asyncio.gather(client.call(samples.READ, Text()), return_exceptions=True)
        await owner.entered.get()
        relay.freeze_open()
        await owner.cancelled.get()
    await client.stop()
    await call
    await relay.stop()
    await server.stop()
    assert [entry for entry in logged if entry["log_level"] != "info"] == []


async def test_a_restarted_owner_is_called_again(owner: Owner, pki: Pki) -> None:
    first = CarrierServer(owner.handlers(), identity=pki.server(), authorize=owner.authorize, stop_grace=0.0)
    await first.start()
    client = CarrierClient("127.0.0.1", first.port, pki.client(), connect_grace=10.0, backoff=(0.01, 0.05))
    await client.start()
    await client.call(samples.ECHO, Text())
    await first.stop()
    second = CarrierServer(
        owner.handlers(), identity=pki.server(), authorize=owner.authorize, port=first.port
    )
    await second.start()
    await until(lambda: client.connected)
    assert await client.call(samples.ECHO, Text("new")) == Text("new")
    await client.stop()
    await second.stop()


async def test_an_owner_that_stops_lets_running_calls_finish(owner: Owner, pki: Pki) -> None:
    server = CarrierServer(
        owner.handlers(), identity=pki.server(), authorize=owner.authorize, stop_grace=10.0
    )
    await server.start()
    client = CarrierClient("127.0.0.1", server.port, pki.client(), connect_grace=5.0)
    await client.start()
    async with asyncio.TaskGroup() as group:
        running = group.create_task(client.call(samples.WRITE, Text("last")))
        await owner.entered.get()
        stopping = group.create_task(server.stop())
        with pytest.raises(errors.OwnerUnready, match="stopping"):
            while True:
                await client.call(samples.ECHO, Text())
        owner.gate.set()
    assert running.result() == Text("last")
    assert stopping.done()
    await client.stop()


@pytest.mark.parametrize(
    ("operation", "expected"), [(samples.READ, errors.OwnerUnready), (samples.WRITE, errors.OutcomeUnknown)]
)
async def test_an_owner_that_stops_breaks_off_what_does_not_finish(
    server: CarrierServer,
    client: CarrierClient,
    owner: Owner,
    operation: Operation[Text, Text],
    expected: type[errors.Failure],
) -> None:
    call = asyncio.gather(client.call(operation, Text()), return_exceptions=True)
    await owner.entered.get()
    await server.stop()
    (outcome,) = await call
    assert isinstance(outcome, expected)


async def test_who_does_not_read_slows_only_its_own_calls(
    far: CarrierClient, client: CarrierClient, relay: Relay
) -> None:
    """A handler that reports without end waits for its reader; others are answered meanwhile."""
    flood = asyncio.gather(far.call(samples.COUNT, Count(2_000_000), deadline=60), return_exceptions=True)
    relay.freeze()
    for n in range(200):
        assert await client.call(samples.ECHO, Text(f"{n}")) == Text(f"{n}")
    (outcome,) = await flood
    assert isinstance(outcome, errors.OwnerUnreachable)


async def test_the_client_starts_and_stops_in_any_order(pki: Pki, server: CarrierServer) -> None:
    client = CarrierClient("127.0.0.1", server.port, pki.client())
    await client.stop()
    with pytest.raises(errors.OwnerUnreachable):
        await client.call(samples.ECHO, Text())
    await client.stop()
