"""What compatible model servers send, put together."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.frontend.model.problems import ModelProblem, problem_of
from services.frontend.model.stream import Assembler, Lines, visible


def assembled(*deltas: dict[str, Any]) -> Any:
    assembler = Assembler()
    for delta in deltas:
        assembler.chunk({"choices": [{"delta": delta}]})
    return assembler.reply()


def test_text_comes_together() -> None:
    assert (
        assembled({"role": "assistant"}, {"content": "Hel"}, {"content": None}, {"content": "lo"}).text
        == "Hello"
    )


def test_tool_calls_in_pieces_with_an_index() -> None:
    first = {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"a"'}}]}
    second = {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]}
    other = {"tool_calls": [{"index": 1, "id": "c2", "function": {"name": "g", "arguments": "{}"}}]}
    calls = assembled(first, second, other).tool_calls
    assert [(c.id, c.name, c.arguments) for c in calls] == [("c1", "f", '{"a":1}'), ("c2", "g", "{}")]


def test_tool_calls_in_pieces_without_an_index() -> None:
    first = {"tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{"}}]}
    second = {"tool_calls": [{"function": {"arguments": "}"}}]}
    repeated = {"tool_calls": [{"id": "c1", "function": {"arguments": ""}}]}
    assert [(c.id, c.arguments) for c in assembled(first, second, repeated).tool_calls] == [("c1", "{}")]


def test_a_whole_call_in_one_piece_and_arguments_that_are_an_object() -> None:
    whole = {"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}
    (call,) = assembled(whole).tool_calls
    assert (call.id, json.loads(call.arguments)) == ("call_0", {"a": 1})


def test_reasoning_never_shows_in_its_own_field_or_between_tags() -> None:
    reply = assembled(
        {"reasoning_content": "secret"}, {"content": "<think>plan</th"}, {"content": "ink>Answer"}
    )
    assert reply.text == "Answer"


def test_a_tag_that_is_still_arriving_is_held_back() -> None:
    assert visible("Hi <thi") == "Hi "
    assert visible("Hi <b>") == "Hi <b>"
    assert visible("<think>never closed") == ""


@given(st.text(max_size=60), st.text(max_size=60))
def test_text_between_the_tags_is_never_visible(before: str, inside: str) -> None:
    clean = inside.replace("<", "").replace(">", "")
    assert (
        visible(f"{before.replace('<', '')}<think>{clean}</think>after") == f"{before.replace('<', '')}after"
    )


def test_usage_is_read_from_the_last_chunk_and_may_be_missing() -> None:
    assembler = Assembler()
    assembler.chunk({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}})
    assert (assembler.reply().usage.prompt_tokens, assembler.reply().usage.completion_tokens) == (3, 4)


def test_an_error_inside_a_stream_is_a_problem() -> None:
    with pytest.raises(ModelProblem) as caught:
        Assembler().chunk({"error": {"message": "overloaded", "code": 503}})
    assert caught.value.code == "model_busy"


@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (404, {"error": {"code": "model_not_found", "message": "no"}}, "model_missing"),
        (401, {"error": {"message": "bad key"}}, "model_key"),
        (429, {"error": {"code": "rate_limit_exceeded"}}, "model_busy"),
        (429, {"error": {"code": "insufficient_quota"}}, "model_quota"),
        (400, {"error": {"code": "context_length_exceeded"}}, "model_too_long"),
        (400, {"error": "text only"}, "model_refused"),
        (500, {"detail": "x"}, "model_busy"),
        (503, None, "model_busy"),
    ],
)
def test_error_answers_of_different_servers_mean_the_same(status: int, body: Any, code: str) -> None:
    assert problem_of(status, body).code == code


@given(st.lists(st.integers(min_value=1, max_value=7), max_size=30))
def test_events_are_found_however_the_stream_is_cut(cuts: list[int]) -> None:
    stream = b": comment\ndata: one\r\n\r\nevent: x\ndata: two\n\ndata: [DONE]\n\n"
    lines, found, rest = Lines(), [], stream
    for cut in [*cuts, len(stream)]:
        found += lines.feed(rest[:cut])
        rest = rest[cut:]
    assert found == [b"one", b"two", b"[DONE]"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda c: (
            st.lists(c, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "choices",
                        "delta",
                        "content",
                        "tool_calls",
                        "function",
                        "index",
                        "id",
                        "error",
                        "usage",
                        "message",
                    ]
                ),
                c,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_chunk_of_any_shape_breaks_the_assembler(chunk: Any) -> None:
    assembler = Assembler()
    try:
        assembler.chunk(chunk)
    except ModelProblem:
        return
    assembler.reply()


@pytest.mark.parametrize("count", [10**30, -1, "7", None, 1.5])
def test_a_count_of_tokens_that_cannot_be_one_is_none(count: Any) -> None:
    assembler = Assembler()
    assembler.chunk({"choices": [], "usage": {"prompt_tokens": count, "completion_tokens": 3}})
    usage = assembler.reply().usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (0, 3)
