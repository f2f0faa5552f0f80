"""MarkdownV2 as the Bot API server reads it.

Delimiters nest; the innermost open entity decides what closes. Inside code only the backtick and the backslash
mean anything. A block quotation starts with `>` at the start of a line and lasts while the lines do.
"""

import re
from dataclasses import dataclass

from services.simulators.telegram.entities import Entity, utf16_length
from services.simulators.telegram.links import checked_link, custom_emoji_id

RESERVED = "_*[]()~`>#+-=|{}.!"
_PLAIN = re.compile(r"[^_*\[\]()~`>#+\-=|{}.!\\\n]+")
_PLAIN_CODE = re.compile(r"[^`\\\n]+")
_SPACES = " \t\r\n\v\f\0"

_DELIMITERS = {  # longer ones first: `__` is never two italics
    "```": "pre",
    "__": "underline",
    "||": "spoiler",
    "![": "custom_emoji",
    "_": "italic",
    "*": "bold",
    "~": "strikethrough",
    "`": "code",
    "[": "text_link",
}
_CLOSING = {kind: mark for mark, kind in _DELIMITERS.items()} | {"text_link": "]", "custom_emoji": "]"}
_VERBATIM = {"code", "pre"}
_QUOTES = {"blockquote", "expandable_blockquote"}
_NAMES = {
    "bold": "Bold",
    "italic": "Italic",
    "underline": "Underline",
    "strikethrough": "Strikethrough",
    "spoiler": "Spoiler",
    "code": "Code",
    "pre": "Pre",
    "text_link": "TextUrl",
    "custom_emoji": "CustomEmoji",
}


class MarkupError(ValueError):
    """The text is not MarkdownV2; the message is the server's own sentence."""


@dataclass(slots=True)
class _Open:
    """An entity that has begun: where in the source (characters) and in the result (UTF-16 units, pieces)."""

    kind: str
    source: int
    offset: int
    piece: int
    language: str = ""

    @property
    def name(self) -> str:
        return "PreCode" if self.language else _NAMES[self.kind]


@dataclass(frozen=True, slots=True)
class _Closed:
    begun: _Open
    entity: Entity


def parse(text: str) -> tuple[str, list[Entity]]:
    """The visible text and its entities; raises `MarkupError`. Nothing is trimmed."""
    return _Parser(text).run()


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._pieces: list[str] = []
        self._offset = 0
        self._open: list[_Open] = []
        self._closed: list[_Closed] = []

    def run(self) -> tuple[str, list[Entity]]:
        while self._at < len(self._source):
            self._step(self._source[self._at])
        if self._open and self._open[-1].kind in _QUOTES:
            self._close()
        if self._open:
            raise self._unclosed()
        return "".join(self._pieces), self._entities()

    def _step(self, char: str) -> None:
        if char == "\\":
            self._escape()
        elif char == "\n":
            self._newline()
        elif plain := self._plain().match(self._source, self._at):
            self._write(plain.group(), plain.end() - self._at)
        elif self._closes():
            self._end()
        else:
            self._begin(char)

    def _plain(self) -> re.Pattern[str]:
        return _PLAIN_CODE if self._open and self._open[-1].kind in _VERBATIM else _PLAIN

    def _write(self, text: str, consumed: int) -> None:
        self._pieces.append(text)
        self._offset += utf16_length(text)
        self._at += consumed

    def _escape(self) -> None:
        """Any ASCII character but NUL and DEL may be escaped; elsewhere a backslash is itself."""
        escaped = self._source[self._at + 1 : self._at + 2]
        if escaped and 1 <= ord(escaped) <= 126:
            self._write(escaped, 2)
        else:
            self._write("\\", 1)

    def _newline(self) -> None:
        """A line break belongs to the quotation that it continues or ends."""
        quoted = self._quoted()
        continues = self._source.startswith(">", self._at + 1)
        self._require_quote_on_top(ends=quoted and not continues)
        self._write("\n", 2 if quoted and continues else 1)
        if quoted and not continues:
            self._close()

    def _require_quote_on_top(self, *, ends: bool) -> None:
        if ends and self._open[-1].kind not in _QUOTES:
            raise self._unclosed()

    def _quoted(self) -> bool:
        return any(entity.kind in _QUOTES for entity in self._open)

    def _closes(self) -> bool:
        if not self._open:
            return False
        kind = self._open[-1].kind
        if kind == "blockquote":
            return self._at_expandable_mark()
        if kind == "italic" and self._source.startswith("__", self._at):
            return False
        mark = _CLOSING.get(kind)
        return mark is not None and self._source.startswith(mark, self._at)

    def _at_expandable_mark(self) -> bool:
        """`||` at the end of the last line of a quotation makes it expandable."""
        if not self._source.startswith("||", self._at):
            return False
        rest = self._source[self._at + 2 : self._at + 4]
        return not rest or (rest[0] == "\n" and rest != "\n>")

    def _end(self) -> None:
        kind = self._open[-1].kind
        if kind == "blockquote":
            self._open[-1].kind = "expandable_blockquote"
            self._at += 2
        elif kind in {"text_link", "custom_emoji"}:
            self._at += 1
            self._close_link(kind)
        else:
            self._at += len(_CLOSING[kind])
            self._close(language=self._open[-1].language)

    def _close(self, **extra: str) -> None:
        begun = self._open.pop()
        entity: Entity = {"type": begun.kind, "offset": begun.offset, "length": self._offset - begun.offset}
        entity.update({name: value for name, value in extra.items() if value})
        self._closed.append(_Closed(begun, entity))

    def _close_link(self, kind: str) -> None:
        """The target follows in parentheses; a link without them is its own target."""
        begun = self._open[-1]
        bracketed = self._source.startswith("(", self._at)
        target = self._target() if bracketed else "".join(self._pieces[begun.piece :])
        if kind == "custom_emoji":
            emoji = custom_emoji_id(target) if bracketed else None
            if emoji is None:
                raise MarkupError("Custom emoji entity must contain a tg://emoji URL")
            self._close(custom_emoji_id=emoji)
        elif link := checked_link(target):
            self._close(url=link)
        else:
            self._open.pop()  # a target that is no address leaves plain text

    def _target(self) -> str:
        start = self._at + 1
        at = start
        target = []
        while not self._source.startswith(")", at):
            if at >= len(self._source):
                raise MarkupError(f"Can't find end of a URL at byte offset {self._bytes(start)}")
            escaped = self._source[at + 1 : at + 2] if self._source[at] == "\\" else ""
            is_escape = bool(escaped) and 1 <= ord(escaped) <= 126
            target.append(escaped if is_escape else self._source[at])
            at += 2 if is_escape else 1
        self._at = at + 1
        return "".join(target)

    def _begin(self, char: str) -> None:
        if char == ">" and self._at_line_start() and not self._quoted():
            self._push("blockquote", 1)
            return
        for mark, kind in _DELIMITERS.items():
            if self._source.startswith(mark, self._at):
                self._push(kind, len(mark))
                if kind == "pre":
                    self._read_language()
                return
        raise MarkupError(f"Character '{char}' is reserved and must be escaped with the preceding '\\'")

    def _at_line_start(self) -> bool:
        return not self._pieces or self._pieces[-1].endswith("\n")

    def _push(self, kind: str, consumed: int) -> None:
        self._open.append(_Open(kind, self._at, self._offset, len(self._pieces)))
        self._at += consumed

    def _read_language(self) -> None:
        """A word right after the opening mark that white space ends; one line break after it is not text."""
        end = self._at
        while end < len(self._source) and self._source[end] not in _SPACES and self._source[end] != "`":
            end += 1
        if self._at < end < len(self._source) and self._source[end] != "`":
            self._open[-1].language = self._source[self._at : end]
            self._at = end
        if self._source.startswith("\n", self._at) and not self._quoted():
            self._at += 1

    def _unclosed(self) -> MarkupError:
        entity = self._open[-1]
        return MarkupError(
            f"Can't find end of {entity.name} entity at byte offset {self._bytes(entity.source)}"
        )

    def _bytes(self, at: int) -> int:
        return len(self._source[:at].encode("utf-8", "surrogatepass"))

    def _entities(self) -> list[Entity]:
        """In the order of their starts, outer before inner; empty ones and those inside code are dropped."""
        ordered = sorted(
            (closed for closed in self._closed if closed.entity["length"] > 0),
            key=lambda closed: (closed.entity["offset"], -closed.entity["length"], closed.begun.source),
        )
        kept: list[Entity] = []
        code_end = 0
        for closed in ordered:
            entity = closed.entity
            if entity["offset"] < code_end:
                continue
            if entity["type"] in _VERBATIM:
                code_end = entity["offset"] + entity["length"]
            kept.append(entity)
        return kept
