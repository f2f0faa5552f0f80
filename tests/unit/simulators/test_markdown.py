import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.simulators.telegram import markdown
from services.simulators.telegram.entities import trimmed, utf16_length
from services.simulators.telegram.links import checked_link, custom_emoji_id
from tests.support.spec import spec_path

VECTORS = json.loads(spec_path("contracts/telegram/markdownv2-vectors.json").read_text())
MARKED = st.text(alphabet=st.sampled_from([*"_*[]()~`>#+-=|{}.!\\\n ab🏟é"]), max_size=40)


@pytest.mark.parametrize("vector", VECTORS["ok"], ids=lambda vector: repr(vector["input"]))
def test_reads_what_the_platform_reads(vector: Any) -> None:
    assert markdown.parse(vector["input"]) == (vector["text"], vector["entities"])


@pytest.mark.parametrize("vector", VECTORS["errors"], ids=lambda vector: repr(vector["input"]))
def test_refuses_what_the_platform_refuses_in_its_words(vector: Any) -> None:
    with pytest.raises(markdown.MarkupError) as refused:
        markdown.parse(vector["input"])
    assert str(refused.value) == vector["error"]


def test_the_reserved_characters_are_those_of_the_platform() -> None:
    assert VECTORS["reserved"] == markdown.RESERVED


@settings(max_examples=400, deadline=None)
@given(MARKED)
def test_any_text_is_read_or_refused_with_a_documented_sentence(text: str) -> None:
    try:
        shown, entities = markdown.parse(text)
    except markdown.MarkupError as refused:
        assert str(refused).startswith(("Can't find end of ", "Character '", "Custom emoji entity must "))
        return
    for entity in entities:
        assert entity["length"] > 0
        assert 0 <= entity["offset"] <= utf16_length(shown) - entity["length"]


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60))
def test_an_escaped_text_comes_back_as_it_was(text: str) -> None:
    escaped = "".join(f"\\{char}" if char in markdown.RESERVED or char == "\\" else char for char in text)
    assert markdown.parse(escaped) == (text, [])


@settings(max_examples=200, deadline=None)
@given(MARKED)
def test_only_backtick_and_backslash_mean_something_inside_code(text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace("`", "\\`")
    shown, entities = markdown.parse(f"`{escaped}`")
    assert shown == text
    assert [entity["type"] for entity in entities] == (["code"] if text else [])


@settings(max_examples=200, deadline=None)
@given(MARKED)
def test_entities_nest_and_never_cross(text: str) -> None:
    try:
        _, entities = markdown.parse(text)
    except markdown.MarkupError:
        return
    ranges = [(entity["offset"], entity["offset"] + entity["length"]) for entity in entities]
    for start, end in ranges:
        for other_start, other_end in ranges:
            apart = other_end <= start or end <= other_start
            nested = (start <= other_start and other_end <= end) or (
                other_start <= start and end <= other_end
            )
            assert apart or nested


@pytest.mark.parametrize(
    ("text", "shown", "kinds"),
    [
        ("```py\nx = 1\n```", "x = 1\n", ["pre"]),
        ("``` a`b` ```", " ab ", ["pre"]),
        ("*a _b_ c*", "a b c", ["bold", "italic"]),
        (">a||", "a", ["expandable_blockquote"]),
        ("![👍](tg://emoji?id=5368324170671202286)", "👍", ["custom_emoji"]),
        ("[ex\\.test]", "ex.test", ["text_link"]),
        ("[no address](nowhere)", "no address", []),
        (">`a\n>b`", "a\nb", ["blockquote", "code"]),
        ("a\\", "a\\", []),
    ],
)
def test_forms_beside_the_vectors(text: str, shown: str, kinds: list[str]) -> None:
    visible, entities = markdown.parse(text)
    assert (visible, [entity["type"] for entity in entities]) == (shown, kinds)


@pytest.mark.parametrize(
    ("target", "stored"),
    [
        ("HTTPS://Ex.Test/A_b?c#d", "https://ex.test/A_b?c#d"),
        ("ex.test", "http://ex.test/"),
        ("ex.test:8080/x", "http://ex.test:8080/x"),
        ("tg://user?id=1", "tg://user?id=1"),
        ("ftp://ex.test/", None),
        ("nowhere", None),
        ("a b.test", None),
        ("", None),
    ],
)
def test_link_targets_are_checked_and_completed(target: str, stored: str | None) -> None:
    assert checked_link(target) == stored


def test_a_custom_emoji_needs_a_number() -> None:
    assert custom_emoji_id("tg://emoji?id=12") == "12"
    assert custom_emoji_id("tg://emoji?id=x") is None
    assert custom_emoji_id("https://[") is None


def test_trimming_moves_and_cuts_entities() -> None:
    bold = {"type": "bold", "offset": 1, "length": 4}
    gone = {"type": "italic", "offset": 6, "length": 1}
    assert trimmed("  abc  ", [bold, gone]) == ("abc", [{"type": "bold", "offset": 0, "length": 3}])
