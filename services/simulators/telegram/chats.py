"""Chats and their visible messages.

A private chat with two bots is two chats, so private chats are kept by bot; groups are shared by all bots.
Message IDs count up within a chat.
"""

from dataclasses import dataclass, field
from typing import Any

from services.simulators.telegram.bots import Bot
from services.simulators.telegram.entities import Entity
from services.simulators.telegram.errors import REFUSALS, ApiError, bad_request

KEEP_MESSAGES = 10_000
"""Visible messages kept for a chat; older ones are forgotten, as if they had never been."""

TYPING_SECONDS = 5.0
DRAFT_SECONDS = 30.0


@dataclass(slots=True)
class Message:
    """One visible message; `text` is what people see, without markup (the caption of a file)."""

    id: int
    bot: int
    from_bot: bool
    sender: dict[str, Any]
    at: float
    text: str = ""
    entities: list[Entity] = field(default_factory=list)
    thread: int | None = None
    reply_to: int | None = None
    markup: Any = None
    file: dict[str, Any] | None = None
    edits: int = 0
    edited_at: float | None = None
    deleted: bool = False

    def visible(self) -> dict[str, Any]:
        """As the control API shows it."""
        entry: dict[str, Any] = {
            "id": self.id,
            "from_bot": self.from_bot,
            "text": self.text,
            "edits": self.edits,
            "deleted": self.deleted,
            "bot": str(self.bot),
            "from": self.sender.get("first_name") or self.sender.get("title", ""),
            "at": self.at,
        }
        optional = {
            "entities": self.entities,
            "thread": self.thread,
            "reply_to": self.reply_to,
            "edited_at": self.edited_at,
            "file": self.file and {name: self.file[name] for name in ("kind", "name", "size")},
        }
        return entry | {name: value for name, value in optional.items() if value}


@dataclass(slots=True)
class Chat:
    """A conversation. `described` holds the fields of the platform's Chat object besides ID and type."""

    id: int
    described: dict[str, Any] = field(default_factory=dict)
    members: set[int] = field(default_factory=set)
    topics: set[int] = field(default_factory=set)
    closed_topics: set[int] = field(default_factory=set)
    refusal: str | None = None
    migrated_to: int | None = None
    messages: dict[int, Message] = field(default_factory=dict)
    last_id: int = 0
    typing: tuple[int, float] | None = None
    draft: tuple[int, str, float] | None = None

    @property
    def is_private(self) -> bool:
        return self.id > 0

    def as_json(self) -> dict[str, Any]:
        return {"id": self.id, "type": self.described.get("type") or chat_type(self.id), **self.described}

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def add(self, message: Message) -> None:
        """Keep a message; its ID may come from outside, and later ones are higher."""
        self.messages[message.id] = message
        self.last_id = max(self.last_id, message.id)
        if len(self.messages) > KEEP_MESSAGES:
            del self.messages[next(iter(self.messages))]

    def existing(self, message_id: Any) -> Message | None:
        message = self.messages.get(message_id)
        return None if message is None or message.deleted else message

    def know_topic(self, thread: int | None) -> None:
        if thread is not None:
            self.topics.add(thread)
            self.described.setdefault("is_forum", True)

    def check_topic(self, thread: int | None) -> None:
        """Raises the platform's refusal for a topic that does not exist or is closed."""
        if thread is None:
            return
        if thread not in self.topics:
            raise bad_request("message thread not found")
        if thread in self.closed_topics:
            raise bad_request("TOPIC_CLOSED")


def chat_type(chat_id: int) -> str:
    if chat_id > 0:
        return "private"
    return "supergroup" if str(chat_id).startswith("-100") else "group"


class Chats:
    def __init__(self, *, first: int = 0) -> None:
        self._first = first
        self._chats: dict[tuple[int, int], Chat] = {}
        self._by_id: dict[int, list[Chat]] = {}

    def ensure(self, bot: Bot, chat_id: int) -> Chat:
        """The chat, made if need be; the bot can write there from now on."""
        key = self._key(bot.id, chat_id)
        chat = self._chats.get(key)
        if chat is None:
            chat = self._chats[key] = Chat(chat_id, last_id=self._first)
            self._by_id.setdefault(chat_id, []).append(chat)
        chat.members.add(bot.id)
        return chat

    def access(self, bot: Bot, chat_id: Any) -> Chat:
        """The chat that a call names; raises `ApiError` when the bot cannot write there."""
        if chat_id is None or chat_id == "":
            raise bad_request("chat_id is empty")
        chat = self._chats.get(self._key(bot.id, chat_id)) if isinstance(chat_id, int) else None
        if chat is None or bot.id not in chat.members:
            raise bad_request("chat not found")
        if chat.migrated_to is not None:
            reason = "group chat was upgraded to a supergroup chat"
            raise bad_request(reason, migrate_to_chat_id=chat.migrated_to)
        if chat.refusal is not None:
            raise ApiError(*REFUSALS[chat.refusal])
        return chat

    def with_id(self, chat_id: int, bot: int | None = None) -> list[Chat]:
        """All chats of an ID: for a private chat one for each bot, unless `bot` names one."""
        chats = self._by_id.get(chat_id, [])
        return [chat for chat in chats if bot is None or bot in chat.members]

    @staticmethod
    def _key(bot_id: int, chat_id: int) -> tuple[int, int]:
        return (bot_id if chat_id > 0 else 0, chat_id)
