"""Chats and messages as their owner sees them."""

from typing import Any

import msgspec

from shared.store.chats import ChatRow, MessageRow


class MessageView(msgspec.Struct, omit_defaults=True):
    """`data` holds tool calls, or the call that a result answers."""

    seq: int
    role: str
    content: str
    created_at: str
    data: dict[str, Any] = {}
    turn: int = 0
    sender_name: str = ""
    badge: str = ""

    @classmethod
    def of(cls, row: MessageRow) -> "MessageView":
        created = row.created_at.isoformat()
        return cls(
            row.seq, row.role, row.content, created, row.data, row.turn_id or 0, row.sender_name, row.badge
        )


class ChatView(msgspec.Struct, omit_defaults=True):
    """`binding_id` names the connection of a messaging chat; `position` is the number of its newest message."""

    id: str
    title: str
    running: bool
    position: int
    created_at: str
    updated_at: str
    agent_id: str = ""
    binding_id: str = ""
    kind: str = ""
    chat_name: str = ""
    link: str = ""

    @classmethod
    def of(cls, row: ChatRow) -> "ChatView":
        return cls(
            row.id,
            row.title,
            row.running,
            row.position,
            row.created_at.isoformat(),
            row.updated_at.isoformat(),
            row.agent_id,
            row.binding_id,
            row.kind,
            row.chat_name,
            row.link,
        )
