"""Inline tokens to pieces: emphasis, code, links, pictures, line breaks."""

from collections.abc import Callable, Sequence

from markdown_it.token import Token

from shared.text.pieces import Piece, Style, cut_up

_SWITCHES: dict[str, tuple[str, bool]] = {
    "strong_open": ("bold", True),
    "strong_close": ("bold", False),
    "em_open": ("italic", True),
    "em_close": ("italic", False),
    "s_open": ("strike", True),
    "s_close": ("strike", False),
}


class InlineWriter:
    """Turns the children of one inline token into pieces."""

    def __init__(self, piece_size: int, takes_link: Callable[[str], bool]) -> None:
        self._size = piece_size
        self._takes_link = takes_link

    def write(self, tokens: Sequence[Token], style: Style) -> list[Piece]:
        """The pieces of `tokens` on top of `style`; pictures count as links to them."""
        pieces: list[Piece] = []
        depths = {"bold": int(style.bold), "italic": 0, "strike": 0}
        link, link_start = "", 0
        for token in tokens:
            if token.type in _SWITCHES:
                name, opens = _SWITCHES[token.type]
                depths[name] += 1 if opens else -1
            elif token.type == "link_open":
                # An autolink is its own label; platforms find such addresses by themselves.
                link = "" if token.info == "auto" else str(token.attrs.get("href", ""))
                link_start = len(pieces)
            elif token.type == "link_close":
                pieces[link_start:] = self._linked(pieces[link_start:], link, style)
                link = ""
            else:
                looks = style._replace(
                    bold=depths["bold"] > 0, italic=depths["italic"] > 0, strike=depths["strike"] > 0
                )
                pieces += self._leaf(token, looks, in_link=bool(link))
        return pieces

    def _leaf(self, token: Token, style: Style, *, in_link: bool) -> list[Piece]:
        if token.type in {"softbreak", "hardbreak"}:
            return list(cut_up("\n", style, self._size))
        if token.type == "code_inline":
            # Code inside a link would end the link on most platforms; the label stays readable without it.
            return list(cut_up(token.content, style._replace(code=not in_link), self._size))
        if token.type == "image":
            label = list(cut_up(token.content.replace("\n", " "), style, self._size))
            return label if in_link else self._linked(label, str(token.attrs.get("src", "")), style)
        return list(cut_up(token.content, style, self._size))

    def _linked(self, label: list[Piece], address: str, style: Style) -> list[Piece]:
        """The label as a link; where that cannot be, the label followed by the address."""
        words = "".join(piece.text for piece in label).strip()
        if not address or words in {address, address.removeprefix("mailto:")}:
            return label
        if words and self._takes_link(address):
            return [piece._replace(style=piece.style._replace(link=address)) for piece in label]
        shown = address.removeprefix("mailto:")
        return label + list(cut_up(f" ({shown})" if words else shown, style, self._size))
