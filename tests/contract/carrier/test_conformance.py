"""What a caller may rely on, with a wire and without one."""

import asyncio

import pytest

from shared.carrier import Carrier, Operation
from shared.carrier.frames import BATCH_SIZE
from shared.domain import errors
from shared.domain.errors import Failure, WireFailure
from tests.contract.carrier import samples
from tests.contract.carrier.conftest import FRAME_LIMIT, MAX_IN_FLIGHT
from tests.contract.carrier.samples import Count, Owner, Text
from tests.support.until import until

EVERY_ERROR: list[Failure] = [
    errors.OwnerUnreachable("a"),
    errors.OwnerUnready("b"),
    errors.OwnerFenced("c"),
    errors.CallerFenced("d"),
    errors.AddonNotRunning("e"),
    errors.PlatformRefused("f", reason="migrated", detail={"migrated_to": -100500}),
    errors.PlatformLimited("g", seconds=2.5),
    errors.PlatformUnavailable("h"),
    errors.Denied("i"),
    errors.OutcomeUnknown("j", operation="t1.2.3"),
    errors.TooLarge("k"),
    errors.Deadline("l"),
    errors.Bug("m"),
]


async def test_a_call_is_answered(carrier: Carrier) -> None:
    assert await carrier.call(samples.ECHO, Text("hello")) == Text("hello")


async def test_the_handler_knows_who_calls_for_whom(carrier: Carrier) -> None:
    facts = await carrier.call(
        samples.FACTS, Text(), deadline=3.0, actor="u7", operation="t9.1.0", term=4, turn=9, epoch=2
    )
    assert (facts.role, facts.name) == ("frontend", "frontend")
    assert (facts.actor, facts.operation) == ("u7", "t9.1.0")
    assert (facts.term, facts.turn, facts.epoch) == (4, 9, 2)
    assert 0 < facts.remaining <= 3.0


@pytest.mark.parametrize("failure", EVERY_ERROR, ids=lambda failure: failure.code)
async def test_every_error_of_the_closed_set_arrives_as_it_was_raised(
    carrier: Carrier, owner: Owner, failure: Failure
) -> None:
    owner.fails_with = failure
    with pytest.raises(type(failure)) as raised:
        await carrier.call(samples.FAIL, Text())
    assert WireFailure.of(raised.value) == WireFailure.of(failure)


@pytest.mark.parametrize("detail", [{"x": object()}, {"x": "y" * BATCH_SIZE}], ids=["foreign", "huge"])
async def test_details_that_cannot_travel_become_a_bug(
    carrier: Carrier, owner: Owner, detail: dict[str, object]
) -> None:
    owner.fails_with = errors.PlatformRefused("no", detail=detail)
    with pytest.raises(errors.Bug, match="details of a platform_refused"):
        await carrier.call(samples.FAIL, Text())
    assert await carrier.call(samples.ECHO, Text("still here")) == Text("still here")


async def test_an_operation_that_the_owner_does_not_know_is_not_executed(carrier: Carrier) -> None:
    with pytest.raises(errors.OwnerUnready, match=r"does not know the operation 'test\.unknown'"):
        await carrier.call(samples.UNKNOWN, Text())


async def test_another_version_is_refused(carrier: Carrier) -> None:
    with pytest.raises(errors.OwnerUnready, match=r"version 1 of test\.echo, not 2"):
        await carrier.call(samples.OTHER_ECHO, Text("x"))


async def test_a_role_that_may_not_call_is_denied(carrier: Carrier) -> None:
    with pytest.raises(errors.Denied, match="a frontend may not call"):
        await carrier.call(samples.OWNERS_OWN, Text())


async def test_the_owner_judges_authority_again(carrier: Carrier) -> None:
    with pytest.raises(errors.Denied, match="administrators only"):
        await carrier.call(samples.ADMIN, Text("x"), actor="u1")
    assert await carrier.call(samples.ADMIN, Text("x"), actor="root") == Text("x")


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (samples.READ, errors.Deadline),
        (samples.WRITE, errors.OutcomeUnknown),
        (samples.SAFE_WRITE, errors.Deadline),
    ],
    ids=lambda value: getattr(value, "name", None),
)
async def test_a_deadline_ends_the_handler_and_says_what_is_known(
    carrier: Carrier, owner: Owner, operation: Operation[Text, Text], expected: type[Failure]
) -> None:
    with pytest.raises(expected) as raised:
        await carrier.call(operation, Text("slow"), deadline=0.2, operation="op-1")
    assert getattr(raised.value, "operation", "op-1") == "op-1"
    async with asyncio.timeout(5):
        assert await owner.cancelled.get() == "slow"
    assert owner.finished == []


@pytest.mark.parametrize("deadline", [0.0, -1.0, float("nan")])
async def test_a_call_without_time_left_is_not_sent(carrier: Carrier, owner: Owner, deadline: float) -> None:
    with pytest.raises(errors.Deadline):
        await carrier.call(samples.WRITE, Text(), deadline=deadline)
    assert owner.entered.empty()


async def test_cancelling_the_caller_cancels_the_handler(carrier: Carrier, owner: Owner) -> None:
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        call = group.create_task(carrier.call(samples.READ, Text("unwanted")))
        await owner.entered.get()
        call.cancel()
        assert await owner.cancelled.get() == "unwanted"
    assert call.cancelled()


async def test_a_call_cancelled_at_once_leaves_nothing_running(carrier: Carrier, owner: Owner) -> None:
    await carrier.call(samples.ECHO, Text())
    async with asyncio.TaskGroup() as group:
        calls = [group.create_task(carrier.call(samples.READ, Text())) for _ in range(MAX_IN_FLIGHT)]
        for call in calls:
            group.create_task(_cancel(call))
    await until(lambda: owner.running == 0)
    assert await _room(carrier) == MAX_IN_FLIGHT


async def _cancel(call: "asyncio.Task[Text]") -> None:
    call.cancel()


async def _room(carrier: Carrier) -> int:
    """How many of one call too many are answered; refusals are the rest."""
    answers = await asyncio.gather(
        *(carrier.call(samples.READ, Text(), deadline=0.2) for _ in range(MAX_IN_FLIGHT + 1)),
        return_exceptions=True,
    )
    return sum(isinstance(answer, errors.Deadline) for answer in answers)


async def test_progress_arrives_in_order_before_the_reply(carrier: Carrier) -> None:
    seen: list[Count] = []
    assert await carrier.call(samples.COUNT, Count(100), on_progress=seen.append) == Count(100)
    assert seen == [Count(n) for n in range(100)]


async def test_a_listener_that_fails_does_not_fail_its_call(carrier: Carrier) -> None:
    def listener(report: Count) -> None:
        raise ValueError(report)

    assert await carrier.call(samples.COUNT, Count(2), on_progress=listener) == Count(2)


async def test_progress_of_an_undeclared_type_is_a_bug(carrier: Carrier) -> None:
    with pytest.raises(errors.Bug):
        await carrier.call(samples.MISREPORT, Count(1))


async def test_answers_come_in_any_order(carrier: Carrier, owner: Owner) -> None:
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        held = [group.create_task(carrier.call(samples.READ, Text(f"{n}"))) for n in range(20)]
        for _ in held:
            await owner.entered.get()
        for n in range(20):
            assert await carrier.call(samples.ECHO, Text(f"fast {n}")) == Text(f"fast {n}")
        assert not any(call.done() for call in held)
        owner.gate.set()
    assert [call.result() for call in held] == [Text(f"{n}") for n in range(20)]


async def test_too_many_calls_in_flight_are_refused_and_not_executed(carrier: Carrier, owner: Owner) -> None:
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        held = [group.create_task(carrier.call(samples.READ, Text())) for _ in range(MAX_IN_FLIGHT)]
        for _ in held:
            await owner.entered.get()
        with pytest.raises(errors.OwnerUnready, match=f"more than {MAX_IN_FLIGHT} calls"):
            await carrier.call(samples.WRITE, Text("excess"))
        owner.gate.set()
    assert "excess" not in owner.finished
    assert await carrier.call(samples.WRITE, Text("again")) == Text("again")


@pytest.mark.parametrize("operation", [samples.BUG, samples.WRONG_REPLY], ids=lambda op: op.name)
async def test_a_bug_of_the_handler_shows_nothing_of_its_inside(
    carrier: Carrier, operation: Operation[Text, Text]
) -> None:
    with pytest.raises(errors.Bug) as raised:
        await carrier.call(operation, Text())
    assert raised.value.message == f"the owner failed inside {operation.name}; its log says why"


async def test_a_request_of_another_shape_is_told_by_its_field(carrier: Carrier) -> None:
    with pytest.raises(errors.Bug, match=r"request of test\.echo cannot be read"):
        await carrier.call(samples.ECHO, Text(5))  # type: ignore[arg-type]


async def test_a_reply_of_another_shape_is_told(carrier: Carrier) -> None:
    with pytest.raises(errors.Bug, match=r"reply of test\.echo cannot be read"):
        await carrier.call(samples.MISREAD_ECHO, Text("x"))


async def test_a_request_that_is_too_large_is_not_sent(carrier: Carrier) -> None:
    with pytest.raises(errors.TooLarge, match=f"limit is {FRAME_LIMIT}"):
        await carrier.call(samples.ECHO, Text("x" * FRAME_LIMIT))


async def test_a_reply_that_is_too_large_is_told(carrier: Carrier) -> None:
    with pytest.raises(errors.TooLarge, match=f"at most {FRAME_LIMIT}"):
        await carrier.call(samples.GROW, Count(FRAME_LIMIT))


async def test_the_largest_payload_fits_many_times(carrier: Carrier) -> None:
    text = "x" * (FRAME_LIMIT - 100)
    answers = await asyncio.gather(*(carrier.call(samples.ECHO, Text(text)) for _ in range(30)))
    assert answers == [Text(text)] * 30


async def test_caller_and_handler_share_no_object(carrier: Carrier) -> None:
    request = Text("x")
    assert await carrier.call(samples.ECHO, request) is not request
