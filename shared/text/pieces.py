"""A text between Markdown and a platform: small styled pieces in one flat line.

A message is any run of pieces. Whatever style the run begins or ends in, its writer opens and closes it,
so a cut between two pieces is always sound.
"""

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple, Protocol

from shared.text.units import chunks

_TOKENS = re.compile(r"\n|[ \t]+|[^ \t\n]+")


class Style(NamedTuple):
    """How a piece looks. `pre` is a code block, `code` is code in a line; `link` is an address or empty."""

    bold: bool = False
    italic: bool = False
    strike: bool = False
    code: bool = False
    pre: bool = False
    language: str = ""
    link: str = ""
    quote: bool = False


PLAIN = Style()


class Kind(Enum):
    """What a piece is to the splitter; a gap is the empty line between two blocks."""

    WORD = "word"
    SPACE = "space"
    NEWLINE = "newline"
    GAP = "gap"


class Piece(NamedTuple):
    text: str
    style: Style = PLAIN
    kind: Kind = Kind.WORD

    @property
    def is_blank(self) -> bool:
        return not self.text.strip()


class Writer(Protocol):
    """Writes pieces as the text of one message of a platform."""

    def feed(self, piece: Piece) -> str:
        """What `piece` adds to the text."""
        ...

    def close(self) -> str:
        """What would end the text here; may be asked at any time and changes nothing."""
        ...


def cut_up(text: str, style: Style, size: int) -> Iterator[Piece]:
    """`text` as words, white space and line breaks; no piece is longer than twice `size` code points."""
    for match in _TOKENS.finditer(text):
        found = match.group()
        if found == "\n":
            yield Piece(found, style, Kind.NEWLINE)
            continue
        kind = Kind.SPACE if found[0] in " \t" else Kind.WORD
        for chunk in chunks(found, size):
            yield Piece(chunk, style, kind)
