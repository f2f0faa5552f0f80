"""How often a password may be tried."""

from services.frontend.api.passwords import REMEMBERED, Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_failures_within_the_window_make_a_name_wait_until_the_oldest_has_left() -> None:
    clock = Clock()
    throttle = Throttle(tries=3, seconds=60, clock=clock)
    for _ in range(3):
        assert throttle.begin("name ada", "address 1") == 0
        clock.now += 10
    assert throttle.begin("name ada", "address 2") == 30
    assert throttle.begin("name bob", "address 1") == 30, "an address waits as well"
    assert throttle.begin("name bob", "address 2") == 0
    clock.now = 60
    assert throttle.begin("name ada", "address 3") == 0


def test_a_success_takes_its_own_try_back_and_no_other() -> None:
    throttle = Throttle(tries=2, seconds=60, clock=Clock())
    for _ in range(5):
        assert throttle.begin("name ada", "address 1") == 0
        throttle.succeeded("name ada", "address 1")
    throttle.begin("name bob", "address 1")
    throttle.begin("name ada", "address 1")
    throttle.succeeded("name ada", "address 1")
    throttle.begin("name bob", "address 1")
    assert throttle.begin("name eve", "address 1") > 0, "a success did not clear the address"


def test_a_try_counts_from_its_beginning_so_that_many_at_once_are_seen() -> None:
    throttle = Throttle(tries=2, seconds=60, clock=Clock())
    assert [throttle.begin("name ada") > 0 for _ in range(4)] == [False, False, True, True]


def test_memory_stays_bounded() -> None:
    clock = Clock()
    throttle = Throttle(tries=2, seconds=60, clock=clock)
    for n in range(REMEMBERED + 50):
        throttle.begin(f"name {n}")
    assert len(throttle._failures) <= REMEMBERED
