import msgspec
import pytest

from shared.carrier import Handlers, Operation


class Empty(msgspec.Struct):
    pass


async def answer(_request: Empty, _call: object) -> Empty:
    return Empty()


@pytest.mark.parametrize("name", ["", "Test", "test.", ".test", "test..x", "test x", "1test"])
def test_a_name_is_lower_case_words_with_dots(name: str) -> None:
    with pytest.raises(ValueError, match="lower case"):
        Operation(name, 1, Empty, Empty)


@pytest.mark.parametrize("deadline", [0.0, -1.0, 3601.0, float("nan")])
def test_a_deadline_is_a_time_that_can_be_waited_for(deadline: float) -> None:
    with pytest.raises(ValueError, match="deadline"):
        Operation("test.x", 1, Empty, Empty, deadline=deadline)


@pytest.mark.parametrize(
    ("write", "idempotent", "lost"),
    [(False, False, False), (False, True, False), (True, True, False), (True, False, True)],
)
def test_only_a_write_that_must_not_be_repeated_may_be_lost(
    write: bool, idempotent: bool, lost: bool
) -> None:
    operation = Operation("test.x", 1, Empty, Empty, write=write, idempotent=idempotent)
    assert operation.may_be_lost is lost


def test_an_operation_has_one_handler() -> None:
    handlers = Handlers()
    operation = Operation("test.x", 1, Empty, Empty)
    handlers.on(operation, answer)
    with pytest.raises(ValueError, match=r"test\.x has a handler already"):
        handlers.on(operation, answer)
