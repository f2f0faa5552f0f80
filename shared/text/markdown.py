"""Markdown, as models write it, to styled pieces: CommonMark with tables and strikethrough.

Nothing of the text is lost: raw HTML and link definitions stay as text, and so does a whole text that nests
too deep. Bare addresses are taken before emphasis, so that their underscores survive (case TG-10).
"""

import re
from collections.abc import Callable

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline

from shared.text.blocks import BlockWriter
from shared.text.pieces import Piece

#: deeper nesting makes the parser skip content; it is a bound on its stack too
MAX_NESTING = 60
_SCHEME = re.compile(r"https?\Z", re.IGNORECASE)
_ADDRESS_REST = re.compile(r"://[^\s<>\[\]`|\\]+")
_ADDRESS_TAIL = "*_~.,;:!?'\")"


def pieces_of(markdown: str, *, piece_size: int, takes_link: Callable[[str], bool]) -> list[Piece]:
    """The pieces of `markdown`; none has more than twice `piece_size` code points.

    Links that `takes_link` declines become their label followed by the address.
    """
    writer = BlockWriter(piece_size, takes_link)
    tokens = _parser.parse(markdown)
    if any(token.level >= MAX_NESTING - 2 for token in tokens):
        writer.literal(markdown)
    else:
        writer.blocks(tokens)
    return writer.pieces


def _bare_address(state: StateInline, silent: bool) -> bool:
    """An inline rule: the rest of `http://...` is text, up to white space, brackets or final punctuation."""
    if state.src[state.pos] != ":" or not _SCHEME.search(state.src, max(0, state.pos - 5), state.pos):
        return False
    match = _ADDRESS_REST.match(state.src, state.pos, state.posMax)
    if match is None:
        return False
    rest = _without_tail(match.group())
    if len(rest) <= len("://"):
        return False
    if not silent:
        state.append_pending(rest)
    state.pos += len(rest)
    return True


def _without_tail(rest: str) -> str:
    """Punctuation at the end belongs to the sentence; a closing parenthesis does, unless one was opened."""
    surplus = rest.count(")") - rest.count("(")
    end = len(rest)
    while end and rest[end - 1] in _ADDRESS_TAIL:
        if rest[end - 1] == ")":
            if surplus <= 0:
                break
            surplus -= 1
        end -= 1
    return rest[:end]


def _new_parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_NESTING})
    parser.enable(["table", "strikethrough"]).disable(["reference", "html_block", "html_inline"])
    parser.inline.ruler.before("escape", "bare_address", _bare_address)
    return parser


_parser = _new_parser()
