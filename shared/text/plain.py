"""Pieces as plain text: no marks, and each link's address after its label (ANS-26)."""

from shared.text.pieces import Kind, Piece


class PlainWriter:
    """A Writer without formatting; a quoted line begins with `> ` as in a mail."""

    def __init__(self) -> None:
        self._link = ""
        self._at_line_start = True

    def feed(self, piece: Piece) -> str:
        before = self.close() if piece.style.link != self._link else ""
        self._link = piece.style.link
        if piece.kind is Kind.GAP:
            return before + "".join(self._quoted(piece, breaks=True) + char for char in piece.text)
        return before + self._quoted(piece, breaks=piece.kind is Kind.NEWLINE) + piece.text

    def close(self) -> str:
        return f" ({self._link})" if self._link else ""

    def _quoted(self, piece: Piece, *, breaks: bool) -> str:
        prefix = "> " if self._at_line_start and piece.style.quote else ""
        self._at_line_start = breaks
        return prefix
