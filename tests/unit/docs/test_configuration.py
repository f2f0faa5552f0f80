"""The reference pages say what the code declares."""

import re
from pathlib import Path

import pytest

from docs.generate import pages
from shared.config import load
from shared.config.declare import settings_of
from shared.config.sections import SECTIONS

PAGES = pages()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_generated_page_is_what_the_code_says(path: Path) -> None:
    assert path.read_text("utf-8") == PAGES[path], "run: python -m docs.generate"


def test_every_setting_stands_on_the_page_under_the_name_that_works() -> None:
    text = next(text for path, text in PAGES.items() if path.name == "configuration.md")
    named = re.findall(r"^\| `(TRUNKLINE_\w+)` ", text, re.MULTILINE)
    assert len(named) == sum(len(list(settings_of(type(section)))) for section in SECTIONS.values())
    defaults = re.findall(r"^\| `(TRUNKLINE_\w+)` \| `([^`]+)` ", text, re.MULTILINE)
    assert load(dict(defaults)) == load({}), "a default that is set changes nothing"


def test_every_operation_says_what_it_does() -> None:
    text = next(text for path, text in PAGES.items() if path.name == "reference.md")
    operations = re.findall(r"^\| `(\w+\.\w+)`[^|]*\| ([^|]*) \|", text, re.MULTILINE)
    assert len(operations) >= 15
    assert [name for name, meaning in operations if not meaning or "without content" in meaning] == []
