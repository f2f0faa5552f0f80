"""What publishers and subscribers may rely on, over NATS and in one process."""

import asyncio
from typing import Any

import msgspec
import pytest

from shared.bus import Bus, MemoryBus, Subscription, subjects
from shared.bus.subjects import ChatEvent, InboundReady, Send, Subject
from tests.support.until import until


class Listener:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Any]] = []

    async def __call__(self, key: str, payload: Any) -> None:
        self.heard.append((key, payload))

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.heard]


async def listening(bus: Bus, subject: Subject[Any], **how: str) -> tuple[Listener, Subscription]:
    listener = Listener()
    subscription = bus.subscribe(subject, listener, **how)
    assert await subscription.ready()
    return listener, subscription


async def test_a_signal_arrives_with_its_key_and_payload(bus: Bus) -> None:
    listener, _ = await listening(bus, subjects.CHAT)
    event = ChatEvent("delta", position=7, text="Grüße", name="")
    bus.publish(subjects.CHAT, event, key="cht_1")
    await until(lambda: bool(listener.heard))
    assert listener.heard == [("cht_1", event)]


async def test_a_subject_without_keys_has_none(bus: Bus) -> None:
    listener, _ = await listening(bus, subjects.INBOUND_READY)
    bus.publish(subjects.INBOUND_READY, InboundReady("bnd_1", "5001"))
    await until(lambda: bool(listener.heard))
    assert listener.heard == [("", InboundReady("bnd_1", "5001"))]


async def test_a_subscriber_of_one_key_hears_only_that(bus: Bus) -> None:
    one, _ = await listening(bus, subjects.SEND, key="b1")
    every, _ = await listening(bus, subjects.SEND)
    for key in ("b2", "b1", "b10", "b1"):
        bus.publish(subjects.SEND, Send([key]), key=key)
    await until(lambda: len(every.heard) == 4 and len(one.heard) == 2)
    assert one.keys == ["b1", "b1"]
    assert every.keys == ["b2", "b1", "b10", "b1"]


@pytest.mark.case("CL-05")
async def test_a_signal_that_its_receiver_refused_arrives_when_it_is_given_again(bus: Bus) -> None:
    """Nothing remembers that the same words came before: a retry is never taken for a duplicate."""
    attempts: list[str] = []

    async def refuses_first(key: str, payload: Any) -> None:
        attempts.append(payload.binding)
        if len(attempts) == 1:
            raise RuntimeError("not now")

    assert await bus.subscribe(subjects.INBOUND_READY, refuses_first, queue="admission").ready()
    ready = InboundReady("bnd_1", "5001")
    bus.publish(subjects.INBOUND_READY, ready)
    await until(lambda: len(attempts) == 1)
    bus.publish(subjects.INBOUND_READY, ready)
    await until(lambda: len(attempts) == 2)


async def test_signals_of_one_publisher_keep_their_order(bus: Bus) -> None:
    listener, _ = await listening(bus, subjects.CHAT, key="c")
    for position in range(2000):
        bus.publish(subjects.CHAT, ChatEvent("message", position), key="c")
    await until(lambda: len(listener.heard) == 2000)
    assert [event.position for _, event in listener.heard] == list(range(2000))


async def test_a_queue_gives_each_signal_to_one_member(bus: Bus) -> None:
    members = [(await listening(bus, subjects.INBOUND_READY, queue="admission"))[0] for _ in range(3)]
    other, _ = await listening(bus, subjects.INBOUND_READY, queue="other")
    plain, _ = await listening(bus, subjects.INBOUND_READY)
    for n in range(300):
        bus.publish(subjects.INBOUND_READY, InboundReady(str(n)))
    await until(lambda: sum(len(member.heard) for member in members) == 300)
    await until(lambda: len(other.heard) == len(plain.heard) == 300)
    assert all(member.heard for member in members)


async def test_a_handler_that_fails_goes_on_with_the_next_signal(bus: Bus) -> None:
    heard: list[str] = []

    async def handler(key: str, _payload: Send) -> None:
        heard.append(key)
        if key == "bad":
            raise RuntimeError(key)

    assert await bus.subscribe(subjects.SEND, handler).ready()
    for key in ("bad", "good"):
        bus.publish(subjects.SEND, Send(), key=key)
    await until(lambda: heard == ["bad", "good"])


async def test_an_unreadable_signal_costs_only_itself(bus: Bus) -> None:
    class Other(msgspec.Struct):
        kind: int

    listener, _ = await listening(bus, subjects.CHAT)
    bus.publish(Subject("tl.chat", Other), Other(1), key="a")
    bus.publish(subjects.CHAT, ChatEvent("message"), key="b")
    await until(lambda: bool(listener.heard))
    assert listener.keys == ["b"]


async def test_a_cancelled_subscription_hears_nothing_more(bus: Bus) -> None:
    gone, subscription = await listening(bus, subjects.SEND)
    stays, _ = await listening(bus, subjects.SEND)
    bus.publish(subjects.SEND, Send(), key="first")
    await until(lambda: gone.keys == stays.keys == ["first"])
    subscription.cancel()
    subscription.cancel()
    bus.publish(subjects.SEND, Send(), key="second")
    await until(lambda: stays.keys == ["first", "second"])
    assert gone.keys == ["first"]


async def test_a_handler_may_cancel_its_own_subscription(bus: Bus) -> None:
    heard: list[str] = []

    async def handler(key: str, _payload: Send) -> None:
        subscription.cancel()
        await asyncio.sleep(0)
        heard.append(key)

    subscription = bus.subscribe(subjects.SEND, handler)
    assert await subscription.ready()
    bus.publish(subjects.SEND, Send(), key="once")
    bus.publish(subjects.SEND, Send(), key="twice")
    await until(lambda: heard == ["once"])


async def test_a_slow_subscriber_does_not_hold_up_the_others(bus: Bus) -> None:
    gate = asyncio.Event()

    async def slow(_key: str, _payload: Send) -> None:
        await gate.wait()

    assert await bus.subscribe(subjects.SEND, slow).ready()
    quick, _ = await listening(bus, subjects.SEND)
    for n in range(100):
        bus.publish(subjects.SEND, Send(), key=f"{n}")
    await until(lambda: len(quick.heard) == 100)
    gate.set()


@pytest.mark.parametrize("key", ["", "a.b", "a b", ">", "*", "a\r\nPUB x 0", "x" * 129])
async def test_a_key_that_cannot_be_one_is_refused(bus: Bus, key: str) -> None:
    with pytest.raises(ValueError, match=r"tl\.send"):
        bus.publish(subjects.SEND, Send(), key=key)


async def test_a_subscriber_before_the_start_is_served_after_it() -> None:
    bus = MemoryBus()
    listener = Listener()
    subscription = bus.subscribe(subjects.SEND, listener)
    bus.publish(subjects.SEND, Send(), key="lost")
    assert bus.dropped == 1
    await bus.start()
    assert await subscription.ready()
    bus.publish(subjects.SEND, Send(), key="kept")
    await until(lambda: listener.keys == ["kept"])
    await bus.stop()
    await bus.stop()
