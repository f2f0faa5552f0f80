"""Budgets of a binding, on an injected clock."""

import pytest

from services.owner.pacing import Pacer


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pacer(clock: Clock) -> Pacer:
    return Pacer(clock)


RATE = (30.0, 30)


def test_a_burst_goes_at_once_and_what_follows_waits_for_the_rate(pacer: Pacer, clock: Clock) -> None:
    waits = [pacer.wait_for_place("b", *RATE) for _ in range(31)]
    assert waits[:30] == [0.0] * 30
    assert waits[30] == pytest.approx(1 / 30)
    clock.now += 1 / 30
    assert pacer.wait_for_place("b", *RATE) == 0.0


def test_a_place_that_was_not_there_is_not_taken(pacer: Pacer, clock: Clock) -> None:
    for _ in range(40):
        pacer.wait_for_place("b", *RATE)
    clock.now += 1.0
    assert [pacer.wait_for_place("b", *RATE) for _ in range(30)] == [0.0] * 30


def test_an_answer_never_waits_and_others_pay_for_it(pacer: Pacer) -> None:
    for _ in range(60):
        pacer.spend("b", *RATE)
    assert pacer.wait_for_place("b", *RATE) == pytest.approx(31 / 30)


def test_bindings_do_not_share_a_budget(pacer: Pacer) -> None:
    for _ in range(30):
        pacer.wait_for_place("b", *RATE)
    assert pacer.wait_for_place("c", *RATE) == 0.0


def test_typing_leaves_a_reserve_for_messages(pacer: Pacer) -> None:
    spared = [pacer.try_spare("b", "5001", *RATE) for _ in range(30)]
    assert sum(spared) == 22
    assert pacer.wait_for_place("b", *RATE) == 0.0


def test_previews_keep_their_distance_over_all_chats_of_a_binding(pacer: Pacer, clock: Clock) -> None:
    assert pacer.preview_wait("b", "1", *RATE, 0.4) == 0.0
    assert pacer.preview_wait("b", "2", *RATE, 0.4) == pytest.approx(0.4)
    clock.now += 0.4
    assert pacer.preview_wait("b", "2", *RATE, 0.4) == 0.0


@pytest.mark.case("TG-07")
def test_after_a_wait_of_the_platform_nothing_goes_to_that_chat_before_it_is_over(
    pacer: Pacer, clock: Clock
) -> None:
    pacer.hold("b", "-4001", 30.0)
    assert pacer.held("b", "-4001") == pytest.approx(30.0)
    assert pacer.preview_wait("b", "-4001", *RATE, 0.4) == pytest.approx(30.0)
    assert not pacer.try_spare("b", "-4001", *RATE)
    assert pacer.held("b", "5001") == 0.0
    clock.now += 30.0
    assert pacer.held("b", "-4001") == 0.0
    assert pacer.preview_wait("b", "-4001", *RATE, 0.4) == 0.0
