"""Block tokens to pieces: paragraphs, headings, lists, quotations, code blocks, rules."""

import re
from collections.abc import Callable, Sequence

from markdown_it.token import Token

from shared.text.inline import InlineWriter
from shared.text.pieces import Kind, Piece, Style, cut_up
from shared.text.tables import Table

_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,20}\Z")
_RULE = "———"
_INDENT = "  "


class BlockWriter:
    """Appends to `pieces`. A separator is written only when something follows it."""

    def __init__(self, piece_size: int, takes_link: Callable[[str], bool]) -> None:
        self.pieces: list[Piece] = []
        self._size = piece_size
        self._inline = InlineWriter(piece_size, takes_link)
        self._lists: list[Token] = []
        self._quotes = 0
        self._prefix = ""
        self._separator = ""
        self._separator_quoted = False
        self._heading = False

    def literal(self, text: str) -> None:
        self.pieces += cut_up(text, self._style(), self._size)

    def blocks(self, tokens: Sequence[Token]) -> None:
        at = 0
        while at < len(tokens):
            token = tokens[at]
            if token.type == "table_open":
                end = next(i for i in range(at, len(tokens)) if tokens[i].type == "table_close")
                self._table(Table.of(tokens[at:end]))
                at = end
            else:
                self._block(token)
            at += 1

    def _block(self, token: Token) -> None:
        handler = _HANDLERS.get(token.type)
        if handler is not None:
            handler(self, token)

    def _style(self) -> Style:
        return Style(bold=self._heading, quote=self._quotes > 0)

    def _begin(self, *, indented: bool = True) -> None:
        """Writes the separator and the list marker that wait for content."""
        if self._separator and self.pieces:
            style = Style(quote=self._separator_quoted and self._quotes > 0)
            kind = Kind.GAP if len(self._separator) > 1 else Kind.NEWLINE
            self.pieces.append(Piece(self._separator, style, kind))
            if indented and self._lists and not self._prefix:
                self.pieces.append(Piece(_INDENT * len(self._lists), style, Kind.SPACE))
        self._separator = ""
        if self._prefix:
            self.pieces += [Piece(self._prefix, Style(quote=self._quotes > 0))]
            self._prefix = ""

    def _end(self) -> None:
        """A block is over: the next one follows after an empty line, in a list on the next line."""
        self._separator = "\n" if self._lists else "\n\n"
        self._separator_quoted = self._quotes > 0

    def _text(self, token: Token) -> None:
        written = self._inline.write(token.children or [], self._style())
        if not written:
            return
        self._begin()
        indent = Piece(_INDENT * len(self._lists), self._style(), Kind.SPACE)
        for piece in written:
            self.pieces.append(piece)
            if piece.kind is Kind.NEWLINE and self._lists:
                self.pieces.append(indent)

    def _close(self, _: Token) -> None:
        self._end()

    def _heading_open(self, _: Token) -> None:
        self._heading = True

    def _heading_close(self, _: Token) -> None:
        self._heading = False
        self._end()

    def _list_open(self, token: Token) -> None:
        self._lists.append(token)

    def _list_close(self, _: Token) -> None:
        self._lists.pop()
        self._end()

    def _item_open(self, token: Token) -> None:
        if self.pieces and not self._separator:
            self._separator, self._separator_quoted = "\n", self._quotes > 0
        marker = f"{token.info}{token.markup} " if self._lists[-1].type == "ordered_list_open" else "• "
        self._prefix += marker if self._prefix else _INDENT * (len(self._lists) - 1) + marker

    def _item_close(self, _: Token) -> None:
        if self._prefix:
            self._begin()
        self._end()

    def _quote_open(self, _: Token) -> None:
        self._quotes += 1
        self._separator_quoted = self._separator_quoted and self._quotes > 1

    def _quote_close(self, _: Token) -> None:
        self._quotes -= 1
        self._end()

    def _code(self, token: Token) -> None:
        language = token.info.split(maxsplit=1)[0] if token.info.strip() else ""
        known = language if _LANGUAGE.match(language) else ""
        self._preformatted(token.content.removesuffix("\n"), known)

    def _preformatted(self, text: str, language: str = "") -> None:
        """A code block stands outside of a quotation: not every platform can put one inside."""
        if not text.strip():
            return
        self._separator_quoted = False
        self._begin(indented=False)
        if self.pieces and self.pieces[-1].kind in {Kind.WORD, Kind.SPACE}:
            self.pieces.append(Piece("\n", Style(), Kind.NEWLINE))
        self.pieces += cut_up(text, Style(pre=True, language=language), self._size)
        self._end()
        self._separator_quoted = False

    def _rule(self, _: Token) -> None:
        self._begin()
        self.pieces.append(Piece(_RULE, self._style()))
        self._end()

    def _table(self, table: Table) -> None:
        """Narrow tables are drawn in fixed width; others, and those with links, say each cell on a line."""
        drawn = table.drawn()
        if drawn is not None:
            self._preformatted(drawn)
            return
        labels: Sequence[Token | None] = (
            table.headings if table.is_labelled() else [None] * len(table.headings)
        )
        for row in table.rows if table.is_labelled() else [table.headings, *table.rows]:
            for label, cell in zip(labels, row, strict=False):
                self._cell(label, cell)
            self._end()

    def _cell(self, heading: Token | None, cell: Token) -> None:
        bold = self._style()._replace(bold=True)
        label = self._inline.write(heading.children or [], bold) if heading is not None else []
        text = self._inline.write(cell.children or [], self._style())
        if not label and not text:
            return
        self._begin()
        self.pieces += label
        self.pieces += [Piece(": ", self._style()), *text] if label and text else text
        self._separator, self._separator_quoted = "\n", self._quotes > 0


_HANDLERS: dict[str, Callable[[BlockWriter, Token], None]] = {
    "inline": BlockWriter._text,
    "paragraph_close": BlockWriter._close,
    "heading_open": BlockWriter._heading_open,
    "heading_close": BlockWriter._heading_close,
    "bullet_list_open": BlockWriter._list_open,
    "ordered_list_open": BlockWriter._list_open,
    "bullet_list_close": BlockWriter._list_close,
    "ordered_list_close": BlockWriter._list_close,
    "list_item_open": BlockWriter._item_open,
    "list_item_close": BlockWriter._item_close,
    "blockquote_open": BlockWriter._quote_open,
    "blockquote_close": BlockWriter._quote_close,
    "fence": BlockWriter._code,
    "code_block": BlockWriter._code,
    "hr": BlockWriter._rule,
}
