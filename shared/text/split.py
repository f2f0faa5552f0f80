"""Markdown to messages of a platform, each within its limit; the limit counts the text as it is sent.

`render` is the public entry. A cut is made at the best place near the end of a message: between blocks,
between lines, between words, and inside a word only where nothing else fits. Styles, links and code blocks
that a cut goes through end before it and begin again after it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from shared.text import markdown_telegram
from shared.text.markdown import pieces_of
from shared.text.markdown_telegram import MarkdownV2Writer
from shared.text.pieces import Kind, Piece, Writer
from shared.text.plain import PlainWriter
from shared.text.units import MEASURES, Unit, well_formed

#: below this, the marks around one word would not fit beside it
SMALLEST_LIMIT = 64


@dataclass(frozen=True, slots=True)
class Part:
    """One message: `text` in the dialect `markup` (empty: plain), and the same content as `plain` text."""

    text: str
    markup: str
    plain: str


@dataclass(frozen=True)
class Dialect:
    """How a platform is written: its writer, which addresses it links, and how an address is escaped there."""

    writer: Callable[[], Writer]
    takes_link: Callable[[str], bool]
    target: Callable[[str], str]


DIALECTS = {
    "": Dialect(PlainWriter, takes_link=bool, target=str),
    "MarkdownV2": Dialect(MarkdownV2Writer, markdown_telegram.takes_link, markdown_telegram.target),
}


def render(markdown: str, dialect: str, limit: int, unit: Unit) -> list[Part]:
    """`markdown` as messages of at most `limit` units each, in both forms; no message for an empty text.

    Raises KeyError for an unknown dialect or unit, and ValueError for a limit under `SMALLEST_LIMIT`;
    no text makes it fail.
    """
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a limit of {limit} is too small; at least {SMALLEST_LIMIT} is needed")
    how, measure = DIALECTS[dialect], MEASURES[unit]

    def takes_link(address: str) -> bool:
        return how.takes_link(address) and measure(how.target(address)) <= limit // 3

    piece_size = min(64, limit // 16)
    pieces = pieces_of(well_formed(markdown), piece_size=piece_size, takes_link=takes_link)
    writers = {how.writer, PlainWriter}
    return [
        Part(_written(run, how.writer()), dialect, _written(run, PlainWriter()))
        for run in _runs(pieces, writers, limit, measure)
    ]


def _written(run: Sequence[Piece], writer: Writer) -> str:
    return "".join(writer.feed(piece) for piece in run) + writer.close()


class _Cut(NamedTuple):
    """A message may end before piece `end` and the next begin at `following`; `filled` units come before."""

    end: int
    following: int
    filled: int


#: kinds of places, best first, with the share of the limit that must be filled to be content with one
_PLACES = (("gap", 0.5), ("line", 0.5), ("word", 0.25), ("inner", 0.25))


class _Filling:
    """One message being filled: its length in each form that must fit."""

    def __init__(self, writers: set[Callable[[], Writer]], measure: Callable[[str], int]) -> None:
        self._writers = [writer() for writer in writers]
        self._lengths = [0] * len(self._writers)
        self._measure = measure

    def add(self, piece: Piece) -> int:
        """The length of the longest form, were the message to end after `piece`."""
        longest = 0
        for at, writer in enumerate(self._writers):
            self._lengths[at] += self._measure(writer.feed(piece))
            ended = self._lengths[at] + self._measure(writer.close())
            longest = max(longest, ended)
        return longest


def _runs(
    pieces: list[Piece], writers: set[Callable[[], Writer]], limit: int, measure: Callable[[str], int]
) -> list[list[Piece]]:
    runs = []
    start = 0
    while start < len(pieces):
        start = _after_blanks(pieces, start)
        cut = _next_cut(pieces, start, _Filling(writers, measure), limit)
        run = _without_blank_end(pieces[start : cut.end])
        if not all(piece.is_blank for piece in run):
            runs.append(run)
        start = cut.following
    return runs


def _next_cut(pieces: list[Piece], start: int, filling: _Filling, limit: int) -> _Cut:
    """Where the message that begins at `start` ends."""
    best: dict[str, _Cut] = {}
    filled = 0
    for at in range(start, len(pieces)):
        place = _place(pieces[at])
        if place and at > start:
            best[place] = _Cut(at, at + 1, filled)
        length = filling.add(pieces[at])
        if length > limit:
            hard = _Cut(max(at, start + 1), max(at, start + 1), filled)
            good = (
                best[name] for name, share in _PLACES if name in best and best[name].filled >= limit * share
            )
            return next(good, hard)
        filled = length
    return _Cut(len(pieces), len(pieces), filled)


def _place(piece: Piece) -> str:
    """What kind of place for a cut a piece is; the piece itself goes. White space in code is content."""
    if piece.kind is Kind.GAP:
        return "gap"
    if piece.kind is Kind.NEWLINE:
        return "line"
    if piece.kind is Kind.SPACE and not piece.style.pre and not piece.style.code:
        return "inner" if piece.style.link else "word"
    return ""


def _after_blanks(pieces: list[Piece], start: int) -> int:
    while start < len(pieces) and pieces[start].is_blank and not pieces[start].style.pre:
        start += 1
    return start


def _without_blank_end(run: list[Piece]) -> list[Piece]:
    while run and run[-1].is_blank and not run[-1].style.pre:
        run.pop()
    return run
