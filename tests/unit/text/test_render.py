import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.simulators.telegram.markdown import parse
from shared.text.split import SMALLEST_LIMIT, Part, render
from shared.text.units import MEASURES, Unit
from tests.support.spec import spec_path

FRAGMENTS = st.sampled_from(
    ["*", "**", "_", "__", "~~", "`", "```", "```py\n", "\n", "\n\n", "> ", "- ", "1. ", "[", "](", ")", "(", "!",
     "https://ex.test/a_b", "http://a", "://", "|", "|-|\n", "#", " ", "    ", "<", ">", "\\", "a", "b c", "é", "🏟",
     "👨\u200d👩\u200d👧", "\t", "&amp;", "&#0;", "<b>", ".", "\ud800", "\r\n", "---\n", "===\n", "mailto:a@b.c",
     "tg://x", "{", "}", "\x00", "\u2028", "x" * 30]
)  # fmt: skip
MARKDOWN = st.one_of(
    st.lists(FRAGMENTS, max_size=60).map("".join),
    st.text(max_size=200),
    st.text(alphabet="*_~`[]()!>#+-\\|\n ab.", max_size=120),
)
LIMITS = st.sampled_from([SMALLEST_LIMIT, 70, 100, 300, 4096])
UNITS: st.SearchStrategy[Unit] = st.sampled_from(["utf16", "codepoints", "bytes"])


def telegram(markdown: str, limit: int = 4096) -> list[Part]:
    return render(markdown, "MarkdownV2", limit, "utf16")


def only(markdown: str) -> Part:
    [part] = telegram(markdown)
    return part


def shown(part: Part) -> str:
    return parse(part.text)[0]


def entities(part: Part) -> list[tuple[str, str]]:
    """Kind and text of each entity that people see."""
    text, found = parse(part.text)
    units = text.encode("utf-16-le")
    return [
        (each["type"], units[each["offset"] * 2 : (each["offset"] + each["length"]) * 2].decode("utf-16-le"))
        for each in found
    ]


def dense(text: str) -> str:
    """Without white space, which a cut may take."""
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize(
    ("markdown", "kind", "text"),
    [
        ("so **bold** here", "bold", "bold"),
        ("so *slanted* here", "italic", "slanted"),
        ("so ~~gone~~ here", "strikethrough", "gone"),
        ("so `a_b*c` here", "code", "a_b*c"),
        ("# Title", "bold", "Title"),
        ("> said", "blockquote", "said"),
        ("[label](https://ex.test/x)", "text_link", "label"),
        ("![picture](https://ex.test/x.png)", "text_link", "picture"),
        ("```python\nprint(`1`\\2)\n```", "pre", "print(`1`\\2)"),
        ("    indented", "pre", "indented"),
    ],
)
def test_markdown_becomes_what_telegram_shows(markdown: str, kind: str, text: str) -> None:
    part = only(markdown)
    assert part.markup == "MarkdownV2"
    assert (kind, text) in entities(part)


def test_a_code_block_keeps_its_language() -> None:
    assert parse(only("```python\nx\n```").text)[1][0]["language"] == "python"


def test_styles_may_cross_each_other_in_a_link() -> None:
    part = only("[see **this** now](https://ex.test) *and **that***")
    assert ("text_link", "see this now") in entities(part)
    assert ("bold", "this") in entities(part)
    assert ("italic", "and that") in entities(part)


def test_lists_show_bullets_numbers_and_depth() -> None:
    part = only("- one\n  - inner\n- two\n\n3. three\n4. four")
    assert shown(part) == "• one\n  • inner\n• two\n\n3. three\n4. four"


def test_a_quotation_may_hold_paragraphs_lists_and_styles_over_lines() -> None:
    part = only("> **one\n> two**\n>\n> - a\n> > deeper\n\nafter")
    assert entities(part)[0] == ("blockquote", "one\ntwo\n\n• a\n\ndeeper\n")
    assert part.plain == "> one\n> two\n> \n> • a\n> \n> deeper\n\nafter"


def test_a_narrow_table_is_drawn_in_fixed_width() -> None:
    assert entities(only("| name | n |\n|---|---|\n| Ada | 12 |")) == [("pre", "name  n\n----  --\nAda   12")]


def test_a_table_with_links_says_its_cells_on_lines() -> None:
    part = only("| name | site |\n|---|---|\n| Ada | [home](https://ada.test) |")
    assert shown(part) == "name: Ada\nsite: home"
    assert ("text_link", "home") in entities(part)


def test_html_and_link_definitions_stay_as_text() -> None:
    assert shown(only("<b>x</b>\n\n[Ada]: hello")) == "<b>x</b>\n\n[Ada]: hello"


@pytest.mark.parametrize(
    "address", ["ftp://ex.test/x", "/docs", "http://localhost/x", "https://u@ex.test/", "mailto:ada@ex.test"]
)
def test_an_address_that_telegram_would_drop_stands_after_its_label(address: str) -> None:
    part = only(f"[label]({address})")
    assert shown(part) == f"label ({address.removeprefix('mailto:')})"
    assert not [kind for kind, _ in entities(part) if kind == "text_link"]


@pytest.mark.case("TG-10")
def test_underscores_of_addresses_survive() -> None:
    text = "See https://ex.test/a_b/c and https://ex.test/d_e/f"
    part = only(text)
    assert shown(part) == text
    assert part.plain == text


@pytest.mark.case("TG-10")
@pytest.mark.parametrize(
    "address", ["https://ex.test/_b_/c", "https://ex.test/*x*y", "http://ex.test/a__b__(c)"]
)
def test_marks_inside_a_bare_address_are_part_of_it(address: str) -> None:
    assert shown(only(f"**see** {address}, please")) == f"see {address}, please"


def test_marks_around_a_bare_address_are_marks() -> None:
    assert entities(only("**https://ex.test/a_b**")) == [("bold", "https://ex.test/a_b")]


def test_a_link_keeps_every_character_of_its_target() -> None:
    found = parse(only(r"[x](<https://ex.test/a_b(c)d)?e=*f>)").text)[1]
    assert found[0]["url"] == "https://ex.test/a_b(c)d)?e=*f"


@pytest.mark.case("TG-09")
def test_the_plain_form_has_no_backslashes() -> None:
    part = only("Ok! Room 2 - off.")
    assert part.text == r"Ok\! Room 2 \- off\."
    assert part.plain == "Ok! Room 2 - off."


def test_in_the_plain_form_each_address_stands_after_its_label() -> None:
    part = only("[one](https://a.test) and **[two](https://b.test)**")
    assert part.plain == "one (https://a.test) and two (https://b.test)"


@pytest.mark.case("TG-12")
def test_parts_are_cut_after_formatting() -> None:
    parts = telegram("." * 4000)
    assert all(MEASURES["utf16"](part.text) <= 4096 for part in parts)
    assert "".join(map(shown, parts)) == "." * 4000
    assert "".join(part.plain for part in parts) == "." * 4000


def test_a_code_block_survives_a_cut_with_its_language() -> None:
    code = "\n".join(f"    value_{n} = compute(`{n}`)" for n in range(210))
    assert len(code) > 6000
    parts = telegram(f"Look:\n\n```python\n{code}\n```\n\nDone.")
    blocks = [each for part in parts for each in parse(part.text)[1] if each["type"] == "pre"]
    assert len(blocks) == len(parts) > 1
    assert {block["language"] for block in blocks} == {"python"}
    texts = [text for part in parts for kind, text in entities(part) if kind == "pre"]
    assert "\n".join(texts) == code


def test_cuts_prefer_the_end_of_a_paragraph() -> None:
    paragraphs = ["word " * 30 + str(n) for n in range(40)]
    parts = telegram("\n\n".join(paragraphs), limit=1000)
    assert "\n\n".join(part.plain for part in parts) == "\n\n".join(paragraphs)
    assert all(part.plain[-1].isdigit() for part in parts)


def test_a_short_link_is_not_cut() -> None:
    link = "[a label of some words](https://ex.test/page)"
    parts = telegram(f"{'word ' * 9}{link} {'word ' * 9}{link}", limit=100)
    labels = [text for part in parts for kind, text in entities(part) if kind == "text_link"]
    assert labels == ["a label of some words"] * 2


def test_a_character_of_several_code_points_is_not_cut() -> None:
    family = "👨\u200d👩\u200d👧"
    parts = telegram(family * 300, limit=1000)
    assert all(shown(part) == family * (len(shown(part)) // len(family)) for part in parts)


@pytest.mark.parametrize("blank", ["", " ", "\n\n\t\n", "```\n\n```", "\u2003"])
def test_a_blank_text_gives_no_part(blank: str) -> None:
    assert telegram(blank) == []
    assert render(blank, "", 4000, "codepoints") == []


def test_the_plain_dialect_is_the_plain_form() -> None:
    assert render("**a** [b](https://c.test)", "", 1000, "codepoints") == [
        Part("a b (https://c.test)", "", "a b (https://c.test)")
    ]


def test_a_limit_that_no_mark_fits_into_is_refused() -> None:
    with pytest.raises(ValueError, match="too small"):
        render("x", "", SMALLEST_LIMIT - 1, "bytes")


def test_text_that_nests_too_deep_is_shown_as_it_is() -> None:
    deep = "> " * 500 + "core"
    assert dense("".join(map(shown, telegram(deep)))) == dense(deep)


@settings(max_examples=400, deadline=None)
@given(MARKDOWN, LIMITS, UNITS)
def test_every_part_of_any_text_fits_and_parses(markdown: str, limit: int, unit: Unit) -> None:
    for part in render(markdown, "MarkdownV2", limit, unit):
        assert MEASURES[unit](part.text) <= limit
        assert MEASURES[unit](part.plain) <= limit
        assert shown(part).strip()
        assert part.plain.strip()


@settings(max_examples=200, deadline=None)
@given(MARKDOWN)
def test_nothing_is_lost_between_parts(markdown: str) -> None:
    parts = render(markdown, "MarkdownV2", 256, "codepoints")
    whole = render(markdown, "MarkdownV2", 256 * 1000, "codepoints")
    if any("http" in part.plain for part in whole):
        return  # an address that is too long for a small part moves into its text
    assert dense("".join(map(shown, parts))) == dense("".join(map(shown, whole)))


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.sampled_from("aé漢🏟.!=+{}()-, \n"), max_size=300), UNITS)
def test_a_text_without_markdown_is_shown_as_it_is(text: str, unit: Unit) -> None:
    plain = re.sub(r"(?m)^[\s=+\-]+", "", text)
    parts = render(plain, "MarkdownV2", 128, unit)
    assert dense("".join(map(shown, parts))) == dense(plain)
    assert dense("".join(part.plain for part in parts)) == dense(plain)


HOSTILE = {
    "stars": "*" * 100_000,
    "brackets": "[" * 50_000,
    "pictures": "![" * 20_000,
    "quotations": ">" * 100_000 + "x",
    "lists": "- " * 50_000 + "x",
    "emphasis": "**a*" * 25_000,
    "backslashes": "\\" * 100_000,
    "parentheses": "http://a.b/" + ")" * 100_000,
    "code": "".join("`" * (n % 300) + " " for n in range(700)),
    "marks": "a" + "\u0301" * 100_000,
    "headings": "|" + "h" * 5_000 + "|b|\n|-|-|\n" + "|x|y|\n" * 10_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_rendered_in_bounded_size(text: str) -> None:
    """Time is bounded by the test's own limit; work that grew with the square would take hours."""
    parts = telegram(text)
    assert sum(len(part.text) for part in parts) < 6 * len(text)


def test_the_documented_characters_are_escaped() -> None:
    vectors: Any = json.loads(spec_path("contracts/telegram/markdownv2-vectors.json").read_text())
    reserved = vectors["reserved"]
    # The leading letter keeps Markdown from reading a heading or a list.
    text = "x" + " ".join(char for char in reserved if char not in "*_`~[]|")
    assert only(text).text == re.sub(f"([{re.escape(reserved)}])", r"\\\1", text)
