"""What travels between the host (the owner) and an add-on: connector ops and tool phases.

HTTP over a Unix socket. `POST /v1/op/<name>` and `POST /v1/tool/<name>` take an `Envelope` whose
`args` is the type named in `OPS`; the answer is `{"result": ...}` with status 200, or
`{"error": {"code", "message", "data"}}` with a 4xx or 5xx status, from the closed set of
`shared.domain.errors`. `Authorization: Bearer <per-start credential>` on every call.
A credential travels with the call that needs it and is not kept by the add-on (TG-39 to TG-41).
Unknown fields are ignored in both directions, so that host and add-on may be of different versions.
"""

from typing import Annotated, Any, Literal

import msgspec

#: an ID of a platform: it is part of keys and indexes, so it is bounded where it enters
Id = Annotated[str, msgspec.Meta(max_length=256)]
Position = Annotated[str, msgspec.Meta(max_length=1024)]


class Envelope(msgspec.Struct, omit_defaults=True):
    """One call. `credential` is the platform token of the binding; `actor` is a per-call token of the host."""

    args: msgspec.Raw
    credential: str = ""
    actor: str = ""
    binding: str = ""
    options: dict[str, str] = {}
    deadline_seconds: float = 30.0


class Person(msgspec.Struct, omit_defaults=True):
    """Who wrote. `id` decides; `handle` is an @name without the @; `name` is for display only."""

    id: Id
    name: str = ""
    handle: str = ""
    roles: list[str] = []
    is_bot: bool = False


FileKind = Literal["image", "audio", "voice", "video", "document"]


class FileRef(msgspec.Struct, omit_defaults=True):
    """A file of a message: the platform's durable reference, not its bytes."""

    ref: str
    name: str = ""
    mime: str = ""
    size: int | None = None
    kind: FileKind = "document"


class Inbound(msgspec.Struct, omit_defaults=True):
    """One message from the platform.

    `chat` and `thread` are the platform's IDs as text; `thread` is empty outside a thread.
    `id` is the platform's message ID (unique within `chat`), `delivery_id` the ID of the event that carried it.
    `direct` is true for one-to-one chats; absent counts as a group. `addressed` is true when the message is
    meant for the bot (always in a direct chat). `unsupported` names content that the bot cannot read
    (`sticker`, `poll`, `location`, ...). `migrated_to` says that the chat has a new ID from now on.
    """

    chat: Id
    sender: Person
    id: Id = ""
    delivery_id: Id = ""
    thread: Id = ""
    text: str = ""
    direct: bool = False
    addressed: bool = False
    reply_to: Id = ""
    album: Id = ""
    chat_name: str = ""
    link: str = ""
    files: list[FileRef] = []
    unsupported: str = ""
    migrated_to: Id = ""
    sent_at: float = 0.0


class PollArgs(msgspec.Struct, omit_defaults=True):
    """`offset` is what the last poll answered, empty at first; the poll may wait `wait_seconds` for a message."""

    offset: str = ""
    wait_seconds: float = 25.0
    limit: int = 100


class PollResult(msgspec.Struct, omit_defaults=True):
    """`offset` confirms everything in `messages` and before, once it is passed to the next poll.

    `skipped` counts what was confirmed and is not in `messages`. `heard` is false when the answer is not the
    platform's, as where a link of the add-on's own brought the messages: then `HealthAnswer` tells of the link.
    """

    offset: Position
    messages: list[Inbound] = []
    skipped: int = 0
    heard: bool = True


class HealthAnswer(msgspec.Struct, omit_defaults=True):
    """Binding -> seconds since anything at all was heard on its link, for add-ons that keep links of their own."""

    heard: dict[str, float] = {}


class MeArgs(msgspec.Struct, omit_defaults=True):
    """`take_over_webhook` allows the add-on to remove a webhook that another program set (TG-22 of the cases)."""

    take_over_webhook: bool = False


class Me(msgspec.Struct, omit_defaults=True):
    """Whose token it is. `account_id` is the same for every token of one upstream account, at most 128 bytes."""

    account_id: str = ""
    name: str = ""
    handle: str = ""


class SendArgs(msgspec.Struct, omit_defaults=True):
    """A new message. `markup` is empty for plain text, else the kind's dialect; `operation` makes it recognisable."""

    chat: str
    text: str
    thread: str = ""
    reply_to: str = ""
    markup: str = ""
    operation: str = ""


class Sent(msgspec.Struct, omit_defaults=True):
    """The platform's ID of the new message."""

    id: Id


class EditArgs(msgspec.Struct, omit_defaults=True):
    """Replaces the text of a message of the bot. "Not modified" is a success."""

    chat: str
    id: str
    text: str
    thread: str = ""
    markup: str = ""


class DeleteArgs(msgspec.Struct, omit_defaults=True):
    chat: str
    id: str
    thread: str = ""


class TypingArgs(msgspec.Struct, omit_defaults=True):
    chat: str
    thread: str = ""


class DraftArgs(msgspec.Struct, omit_defaults=True):
    """Shows `text`, plain, as a draft that the next message replaces. Equal `draft` IDs (never 0) are one draft."""

    chat: str
    draft: int
    text: str
    thread: str = ""


class Done(msgspec.Struct):
    """An op with no result of its own."""


ToolPhase = Literal["read", "preview", "apply", "settle"]


class ToolCall(msgspec.Struct, omit_defaults=True):
    """One tool call. `operation` is the ID that makes a write recognisable; empty for reads."""

    phase: ToolPhase
    arguments: dict[str, Any] = {}
    operation: str = ""


class ToolResult(msgspec.Struct, omit_defaults=True):
    """What the model reads. `untrusted` marks text written by others.

    `outcome` is the answer of `settle` to what became of a write: `not_applied` only when it had no effect and
    certainly will have none, so that it may be made again.
    """

    content: str
    is_error: bool = False
    untrusted: bool = True
    outcome: Literal["applied", "not_applied", "unknown"] = "applied"


#: name of the op -> (type of its arguments, type of its result)
OPS: dict[str, tuple[type[msgspec.Struct], type[msgspec.Struct]]] = {
    "poll": (PollArgs, PollResult),
    "me": (MeArgs, Me),
    "send": (SendArgs, Sent),
    "edit": (EditArgs, Done),
    "delete": (DeleteArgs, Done),
    "typing": (TypingArgs, Done),
    "draft": (DraftArgs, Done),
}
#: ops whose loss of a reply is `outcome_unknown`: repeating them could be seen twice
UNREPEATABLE_OPS = frozenset({"send"})
