import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.carrier import frames
from shared.domain.errors import Bug, Denied, PlatformLimited, PlatformRefused

RAW = msgspec.Raw(msgspec.msgpack.encode({"text": "x"}))


def test_a_batch_arrives_as_it_was_sent() -> None:
    batch = [
        frames.Request(1, "a.b", 1, 2.5, "u", "op", 1, 2, 3, RAW),
        frames.Cancel(1),
    ]
    decoded = frames.asking_decoder.decode(frames.encode(batch))
    assert frames.encode(decoded) == frames.encode(batch)


def test_answers_are_not_taken_for_questions() -> None:
    with pytest.raises(msgspec.ValidationError):
        frames.asking_decoder.decode(frames.encode([frames.Reply(1, RAW)]))


@given(st.binary(max_size=300))
def test_bytes_of_a_stranger_raise_what_is_expected(data: bytes) -> None:
    for decoder in (frames.asking_decoder, frames.answer_decoder):
        try:
            decoder.decode(data)
        except frames.UNREADABLE:
            continue


@given(st.binary(max_size=300), st.text(max_size=20))
def test_a_failure_that_cannot_be_read_is_a_bug_or_one_of_the_set(data: bytes, code: str) -> None:
    raised = frames.raised(frames.Failed(1, code, "message", msgspec.Raw(data)))
    assert isinstance(raised, Bug)


def test_a_failure_travels_with_its_data() -> None:
    limited = frames.raised(frames.failed(1, PlatformLimited("slow down", seconds=4.0)))
    assert isinstance(limited, PlatformLimited)
    assert (limited.message, limited.seconds) == ("slow down", 4.0)


def test_a_long_message_is_cut_and_foreign_details_are_a_bug() -> None:
    assert len(frames.failed(1, Denied("x" * 9999)).message) == 4000
    assert frames.failed(1, PlatformRefused("no", detail={"x": object()})).code == "bug"
