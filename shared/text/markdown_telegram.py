"""Pieces as Telegram's MarkdownV2.

Rules (core.telegram.org/bots/api, "MarkdownV2 style"): outside code each reserved character has a backslash;
inside code only the backtick and the backslash; inside the parentheses of a link only `)` and the backslash.
Code holds no other formatting. A quotation is a run of lines that begin with `>`, and holds no quotation.
"""

import re

from shared.text.pieces import PLAIN, Kind, Piece, Style

#: addresses that Telegram accepts as a link's target; the label of any other would silently lose it
_WEB_ADDRESS = re.compile(
    r"https?://[\w-]+(\.[\w-]+)+\.?(:\d{1,5})?([/?#]\S*)?\Z|tg://[a-z]\S*\Z", re.IGNORECASE
)
_RESERVED = re.compile(r"([_*\[\]()~`>#+\-=|{}.!\\])")
_RESERVED_IN_CODE = re.compile(r"([`\\])")
_RESERVED_IN_TARGET = re.compile(r"([)\\])")

_BOLD, _ITALIC, _STRIKE, _CODE = "*", "_", "~", "`"


def takes_link(address: str) -> bool:
    """Whether Telegram makes a link of `address`: a web address whose host has a dot, or one of its own."""
    return _WEB_ADDRESS.match(address) is not None


def target(address: str) -> str:
    return _RESERVED_IN_TARGET.sub(r"\\\1", address)


class MarkdownV2Writer:
    """A Writer. Open entities form a stack; what stays wanted stays open, so nesting is always sound.

    Two equal marks never meet: an entity is reopened at once only when another was closed below it.
    """

    def __init__(self) -> None:
        self._stack: list[tuple[str, str]] = []
        self._style = PLAIN
        self._at_line_start = True

    def feed(self, piece: Piece) -> str:
        if piece.kind is Kind.GAP:
            return "".join(self._feed(Piece(char, piece.style, Kind.NEWLINE)) for char in piece.text)
        return self._feed(piece)

    def close(self) -> str:
        return "".join(closing for _, closing in reversed(self._stack))

    def _feed(self, piece: Piece) -> str:
        quoted = ">" if self._at_line_start and piece.style.quote else ""
        marks = "" if piece.style == self._style else self._change(_wanted(piece.style))
        self._style = piece.style
        # A new line of a quotation begins before the entities that begin on it.
        written = quoted + marks + _escaped(piece)
        self._at_line_start = piece.kind is Kind.NEWLINE
        return written

    def _change(self, wanted: list[tuple[str, str]]) -> str:
        """Closes down to the lowest entity that is not wanted any more, then opens what is missing."""
        keep = 0
        while keep < len(self._stack) and self._stack[keep] in wanted:
            keep += 1
        closing = "".join(mark for _, mark in reversed(self._stack[keep:]))
        del self._stack[keep:]
        missing = [entity for entity in wanted if entity not in self._stack]
        self._stack += missing
        return closing + "".join(opening for opening, _ in missing)


def _wanted(style: Style) -> list[tuple[str, str]]:
    """The entities of a style as (opening, closing), outermost first."""
    if style.pre:
        return [(f"```{style.language}\n", "```")]
    if style.code:
        return [(_CODE, _CODE)]
    marks = [
        mark for mark, on in ((_BOLD, style.bold), (_ITALIC, style.italic), (_STRIKE, style.strike)) if on
    ]
    entities = [(mark, mark) for mark in marks]
    if style.link:
        entities.append(("[", f"]({target(style.link)})"))
    return entities


def _escaped(piece: Piece) -> str:
    verbatim = piece.style.pre or piece.style.code
    return (_RESERVED_IN_CODE if verbatim else _RESERVED).sub(r"\\\1", piece.text)
