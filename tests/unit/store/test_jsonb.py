"""What Postgres cannot store is taken out, and nothing else is changed."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.store.jsonb import encoded

_TEXT = st.text(st.sampled_from('\x00\\u0"a'), max_size=12)


def cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, list):
        return [cleaned(item) for item in value]
    return {key: cleaned(item) for key, item in value.items()}


@pytest.mark.parametrize(
    "text", ["\\u0000", "C:\\u0000\\", "\\\x00", "\\\\u0000", "\x00\\u0000\x00", "a\x00b"]
)
def test_a_text_that_only_shows_an_escaped_null_character_stays_as_it_is(text: str) -> None:
    assert orjson.loads(encoded({"text": text})) == {"text": text.replace("\x00", "")}


@given(st.recursive(_TEXT, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("k"), inner)))
def test_the_null_character_goes_and_all_else_stays(value: Any) -> None:
    assert orjson.loads(encoded(value)) == cleaned(value)
