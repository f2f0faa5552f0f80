"""What leaves the store: bindings, chats, turns, deliveries, as plain frozen records."""

from dataclasses import dataclass, field
from typing import Any, Literal

ReplyMode = Literal["progress", "stream", "off"]
Conversation = Literal["sender", "chat", "window", "thread"]
Purpose = Literal["working", "answer", "notice", "notification", "message"]
Action = Literal["send", "edit", "delete"]


@dataclass(frozen=True, slots=True)
class Lane:
    """One place of conversation: a binding and a chat of its platform. Order is promised within a lane."""

    binding_id: str
    platform_chat: str


@dataclass(frozen=True, slots=True)
class Agent:
    """A saved agent as a turn needs it."""

    id: str
    user_id: str
    name: str
    model: str
    instructions: str = ""
    tools: bool = True
    addons: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binding:
    """One bot of one owner, without its token."""

    id: str
    user_id: str
    agent_id: str | None
    kind: str
    addon: str
    name: str
    enabled: bool
    allow: tuple[str, ...] = ()
    accept_any: bool = False
    reply_mode: ReplyMode = "progress"
    conversation: Conversation = "sender"
    window_minutes: int = 60
    options: dict[str, str] = field(default_factory=dict)
    account_id: str = ""
    account_epoch: int = 1
    revision: int = 1


@dataclass(frozen=True, slots=True)
class Message:
    """One entry of a chat. `data` holds tool calls, the ID of the call a result answers, or files."""

    seq: int
    role: Literal["user", "assistant", "tool", "note"]
    content: str
    data: dict[str, Any] = field(default_factory=dict)
    sender_name: str = ""
    sender_id: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """A claimed turn. Every act under it names `id` and `epoch`; a newer epoch fences it."""

    id: int
    chat_id: str
    user_id: str
    agent_id: str
    binding_id: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Part:
    """One planned part of what a chat will see, before it has a place in the order.

    `body` holds `text`, `markup` and `plain` of a send or an edit. `target_id` is the delivery that an edit replaces.
    """

    purpose: Purpose
    action: Action
    body: dict[str, Any]
    thread: str = ""
    reply_to: str = ""
    target_id: int | None = None
    chat_id: str | None = None
    turn_id: int | None = None
    epoch: int = 0
    part: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """A part that the owner claimed for execution. `target_message` is the platform's ID of what it edits."""

    id: int
    binding_id: str
    platform_chat: str
    thread: str
    reply_to: str
    purpose: Purpose
    action: Action
    body: dict[str, Any]
    attempts: int
    age_seconds: float
    target_id: int | None
    target_message: str
    turn_id: int | None
    epoch: int
    kind: str
    addon: str
    binding_revision: int
