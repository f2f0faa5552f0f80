"""NATS comes and goes; nothing but signals is lost."""

import asyncio
import time

import pytest

from shared.bus import NatsBus, subjects
from shared.bus.subjects import LeaderChanged, Send
from tests.contract.bus.test_bus import Listener, listening
from tests.support.nats import NatsServer
from tests.support.until import until


async def test_the_bus_starts_while_nats_is_away_and_works_once_it_is_there(
    nats: NatsServer, capfd: pytest.CaptureFixture[str]
) -> None:
    bus = NatsBus(nats.url, reconnect_wait=0.01, start_grace=0.05)
    listener = Listener()
    subscription = bus.subscribe(subjects.SEND, listener)
    await bus.start()
    later = bus.subscribe(subjects.NOTIFY, listener)
    assert not bus.connected
    assert not await subscription.ready(within=0.01)
    bus.publish(subjects.SEND, Send(), key="lost")
    assert bus.dropped == 1
    await nats.start()
    assert await subscription.ready(within=10)
    assert await later.ready(within=10)
    bus.publish(subjects.SEND, Send(), key="kept")
    await until(lambda: listener.keys == ["kept"])
    await bus.stop()
    assert "Traceback" not in capfd.readouterr().err


async def test_a_crash_of_nats_costs_signals_only(nats: NatsServer) -> None:
    await nats.start()
    bus = NatsBus(nats.url, reconnect_wait=0.01)
    await bus.start()
    before, _ = await listening(bus, subjects.SEND)
    nats.kill()
    await until(lambda: not bus.connected)
    begun = time.perf_counter()
    for _ in range(20_000):
        bus.publish(subjects.SEND, Send(), key="down")
    assert time.perf_counter() - begun < 5
    assert bus.dropped == 20_000
    during = Listener()
    subscription = bus.subscribe(subjects.NOTIFY, during)
    await nats.start()
    await until(lambda: bus.connected)
    assert await subscription.ready(within=10)
    bus.publish(subjects.SEND, Send(), key="back")
    bus.publish(subjects.NOTIFY, subjects.Notify(), key="usr")
    await until(lambda: before.keys == ["back"] and during.keys == ["usr"])
    await bus.stop()


async def test_signals_pass_between_processes_connections(nats: NatsServer) -> None:
    await nats.start()
    here, there = NatsBus(nats.url, name="a"), NatsBus(nats.url, name="b")
    await here.start()
    await there.start()
    listener, _ = await listening(there, subjects.LEADER, key="0")
    here.publish(subjects.LEADER, LeaderChanged(term=3), key="0")
    await until(lambda: listener.heard == [("0", LeaderChanged(term=3))])
    await here.stop()
    await there.stop()


async def test_what_was_published_before_the_stop_still_leaves(nats: NatsServer) -> None:
    await nats.start()
    here, there = NatsBus(nats.url), NatsBus(nats.url)
    await here.start()
    await there.start()
    listener, _ = await listening(there, subjects.LEADER)
    here.publish(subjects.LEADER, LeaderChanged(released=True), key="0")
    await here.stop()
    await until(lambda: listener.keys == ["0"])
    await there.stop()


async def test_stopping_does_not_wait_for_a_server_that_is_away(nats: NatsServer) -> None:
    await NatsBus(nats.url).stop()
    bus = NatsBus(nats.url, start_grace=0.01)
    subscription = bus.subscribe(subjects.SEND, Listener())
    await bus.start()
    async with asyncio.timeout(3):
        await bus.stop()
        await bus.stop()
    subscription.cancel()
