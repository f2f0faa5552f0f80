"""What people do: a shorthand or a raw update becomes a queued update and a visible message."""

from typing import Annotated, Any

import msgspec

from services.simulators.telegram.bots import Bot
from services.simulators.telegram.chats import Chat, Message
from services.simulators.telegram.entities import with_detected
from services.simulators.telegram.world import World

MESSAGE_KINDS = ("message", "edited_message", "channel_post", "edited_channel_post")


class Person(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Who wrote, with the platform's own field names."""

    id: int
    first_name: str = "Someone"
    last_name: str | None = None
    username: str | None = None
    language_code: str | None = None
    is_bot: bool = False

    def as_json(self) -> dict[str, Any]:
        known = {name: value for name, value in msgspec.to_builtins(self).items() if value is not None}
        return {"is_bot": self.is_bot, "first_name": self.first_name, **known}


class Event(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The body of `POST /_sim/telegram/events`: either a raw `update` without `update_id`, or a message.

    `thread` is a forum topic, `reply_to` the ID of a message of the chat, `title` the name of a group. With
    `message_id` the message keeps that ID; when the chat has it already, it is delivered once more.
    """

    bot: str
    update: dict[str, Any] | None = None
    chat: int | None = None
    sender: Person | None = msgspec.field(default=None, name="from")
    text: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    title: str | None = None
    thread: int | None = None
    reply_to: int | None = None
    message_id: int | None = None

    def __post_init__(self) -> None:
        shorthand = (self.chat, self.sender, self.text)
        if self.update is not None and any(part is not None for part in shorthand):
            raise ValueError("the field `update` stands alone: chat, from and text are of the shorthand")
        if self.update is None:
            for name, part in zip(("chat", "from", "text"), shorthand, strict=True):
                if part is None:
                    raise ValueError(f"the field `{name}` is missing")
        elif "update_id" in self.update or len(self.update) != 1:
            raise ValueError("the field `update` holds exactly one kind of content and no update_id")


class UnknownMessage(ValueError):
    """`reply_to` names a message that the chat does not have."""


def received(world: World, bot: Bot, event: Event) -> int:
    """Store and queue what happened; returns the update ID. Nothing is stored when it raises."""
    if event.update is not None:
        return _raw(world, bot, event.update)
    assert event.chat is not None
    assert event.sender is not None
    chat = world.chats.ensure(bot, event.chat)
    if event.reply_to is not None and chat.existing(event.reply_to) is None:
        raise UnknownMessage("the field `reply_to` names no message of this chat")
    _describe(chat, event.sender, event.title)
    chat.know_topic(event.thread)
    message = chat.existing(event.message_id) or _written(world, bot, chat, event, event.sender)
    return bot.updates.offer("message", world.as_json(chat, message))


def _describe(chat: Chat, person: Person, title: str | None) -> None:
    if chat.is_private:
        names = ("first_name", "last_name", "username")
        chat.described |= {name: getattr(person, name) for name in names if getattr(person, name)}
    elif title or "title" not in chat.described:
        chat.described["title"] = title or f"Group {abs(chat.id)}"


def _written(world: World, bot: Bot, chat: Chat, event: Event, person: Person) -> Message:
    text = event.text or ""
    message = Message(
        id=event.message_id or chat.next_id(),
        bot=bot.id,
        from_bot=False,
        sender=person.as_json(),
        at=world.clock(),
        text=text,
        entities=with_detected(text, []),
        thread=event.thread,
        reply_to=event.reply_to,
    )
    world.keep(chat, message)
    return message


def _raw(world: World, bot: Bot, update: dict[str, Any]) -> int:
    """Queue an update as it is; the simulator learns from it what its message says about the chat."""
    kind, content = next(iter(update.items()))
    if kind in MESSAGE_KINDS and isinstance(content, dict):
        _learn(world, bot, kind, content)
    return bot.updates.offer(kind, content)


def _learn(world: World, bot: Bot, kind: str, content: dict[str, Any]) -> None:
    described = dict(content["chat"])
    chat = world.chats.ensure(bot, described.pop("id"))
    chat.described |= described
    if content.get("is_topic_message"):
        chat.know_topic(content.get("message_thread_id"))
    if "migrate_to_chat_id" in content:
        chat.migrated_to = content["migrate_to_chat_id"]
        successor = world.chats.ensure(bot, content["migrate_to_chat_id"])
        successor.described.setdefault("title", chat.described.get("title", ""))
    _show(world, bot, chat, kind, content)


def _show(world: World, bot: Bot, chat: Chat, kind: str, content: dict[str, Any]) -> None:
    shown = chat.existing(content["message_id"])
    if shown is None:
        shown = Message(
            id=content["message_id"],
            bot=bot.id,
            from_bot=False,
            sender=content.get("from") or content.get("sender_chat") or {},
            at=float(content["date"]),
            thread=content.get("message_thread_id") if content.get("is_topic_message") else None,
        )
    elif kind.startswith("edited_"):
        shown.edits += 1
        shown.edited_at = world.clock()
    shown.text = content.get("text") or content.get("caption") or ""
    shown.entities = content.get("entities") or content.get("caption_entities") or []
    world.keep(chat, shown)
