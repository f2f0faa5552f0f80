"""The page on delivery says for each instant what happens when somebody dies there."""

import re
from pathlib import Path

from shared.lifecycle.points import Point

PAGE = Path(__file__).parents[3] / "docs" / "delivery.md"


def test_every_instant_has_a_row_in_the_order_in_which_a_message_meets_them() -> None:
    assert re.findall(r"^\| `([a-z]+\.[a-z]+)` \|", PAGE.read_text("utf-8"), re.MULTILINE) == list(Point)
