"""All signals, and what they say.

A signal makes something happen sooner and is never the only way to learn of it: each line of the table in the
architecture names what finds the same thing without it. State is committed first.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import msgspec

Payload = TypeVar("Payload", bound=msgspec.Struct)
_KEY = re.compile(r"[A-Za-z0-9_-]{1,128}")
ANY = "*"


@dataclass(frozen=True, eq=False)
class Subject(Generic[Payload]):
    """A kind of signal. With `keyed` each signal is about one thing, whose ID is the last part of its address."""

    name: str
    payload: type[Payload]
    keyed: bool = True

    def address(self, key: str) -> str:
        """Where a signal about `key` goes; `*` means every key. A ValueError names a key that cannot be one."""
        if not self.keyed:
            if key not in ("", ANY):
                raise ValueError(f"{self.name} has no keys")
            return self.name
        if key != ANY and not _KEY.fullmatch(key):
            raise ValueError(f"a key of {self.name} has letters, digits, _ and -, not {key[:40]!r}")
        return f"{self.name}.{key}"

    def target(self, key: str) -> str:
        """Where one signal goes: a keyed subject needs one key. Raises ValueError."""
        if self.keyed and key == ANY:
            raise ValueError(f"a signal of {self.name} is about one thing")
        return self.address(key)

    def key(self, address: str) -> str:
        """The key that an address of this subject names; empty without keys."""
        return address[len(self.name) + 1 :]

    @cached_property
    def decoder(self) -> msgspec.msgpack.Decoder[Payload]:
        return msgspec.msgpack.Decoder(self.payload)


class InboundReady(msgspec.Struct):
    """Messages of a lane wait for admission (`binding`, platform `chat`, `thread`), or admitted ones for a turn."""

    binding: str = ""
    chat: str = ""
    thread: str = ""
    chat_id: str = ""


class ChatEvent(msgspec.Struct):
    """A chat has grown up to `position`.

    `text` is a piece of an answer that is being written and is not stored yet; `name` is the tool that runs.
    """

    kind: str
    position: int = 0
    text: str = ""
    name: str = ""


class Notify(msgspec.Struct):
    """A user's inbox has something new."""


class Send(msgspec.Struct):
    """Deliveries of a binding wait in these platform chats."""

    chats: list[str] = []


class ShareRevoked(msgspec.Struct):
    """Shares of a binding were withdrawn; the owner refuses them already."""


class BindingChanged(msgspec.Struct):
    """A binding has a new revision; 0 means: look."""

    revision: int = 0


class LeaderChanged(msgspec.Struct):
    """A shard has a leader with this term, or, `released`, has none now."""

    term: int = 0
    released: bool = False


class McpChanged(msgspec.Struct):
    """The record of an MCP connector changed."""


class FrontendGone(msgspec.Struct):
    """A frontend stops: others look at once for turns that it gave away and messages that it left."""

    id: str


INBOUND_READY = Subject("tl.inbound.ready", InboundReady, keyed=False)
CHAT = Subject("tl.chat", ChatEvent)
NOTIFY = Subject("tl.notify", Notify)
SEND = Subject("tl.send", Send)
SHARE_REVOKED = Subject("tl.share.revoked", ShareRevoked)
BINDING_CHANGED = Subject("tl.binding.changed", BindingChanged)
LEADER = Subject("tl.leader", LeaderChanged)
MCP_CHANGED = Subject("tl.mcp.changed", McpChanged)
FRONTEND_GONE = Subject("tl.frontend.gone", FrontendGone, keyed=False)
