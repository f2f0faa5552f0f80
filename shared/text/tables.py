"""Markdown tables: drawn in fixed width where that is readable on a phone."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from markdown_it.token import Token

#: columns of fixed-width text that a phone shows without wrapping
_WIDEST = 40
_GAP = "  "


@dataclass(frozen=True)
class Table:
    """The inline tokens of the cells."""

    headings: list[Token]
    rows: list[list[Token]]

    @classmethod
    def of(cls, tokens: Sequence[Token]) -> "Table":
        rows: list[list[Token]] = []
        for token in tokens:
            if token.type == "tr_open":
                rows.append([])
            elif token.type == "inline":
                rows[-1].append(token)
        return cls(rows[0], rows[1:])

    def is_labelled(self) -> bool:
        """Whether the headings are short enough to be said again before each cell."""
        return all(_width(cell.content) <= _WIDEST for cell in self.headings)

    def drawn(self) -> str | None:
        """The table as lines of equal columns; None when it has links or is too wide (a bare heading never is)."""
        cells = [[_cell_text(cell) for cell in row] for row in (self.headings, *self.rows)]
        if any(text is None for row in cells for text in row):
            return None
        texts = [[text or "" for text in row] for row in cells]
        widths = [max(_width(row[i]) for row in texts if i < len(row)) for i in range(len(texts[0]))]
        if self.rows and sum(widths) + len(_GAP) * (len(widths) - 1) > _WIDEST:
            return None
        ruled = [texts[0], ["-" * width for width in widths], *texts[1:]]
        return "\n".join(_line(row, widths) for row in ruled)


def _line(row: list[str], widths: list[int]) -> str:
    padded = (text + " " * (width - _width(text)) for text, width in zip(row, widths, strict=False))
    return _GAP.join(padded).rstrip()


def _cell_text(cell: Token) -> str | None:
    """The words of a cell without their styles; None where there is a link."""
    children = cell.children or []
    if any(child.type in {"link_open", "image"} for child in children):
        return None
    return "".join(child.content for child in children)


def _width(text: str) -> int:
    """Columns in fixed width: wide East Asian characters take two, marks on a letter none."""
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    marks = sum(unicodedata.combining(char) > 0 for char in text)
    return len(text) + wide - marks
