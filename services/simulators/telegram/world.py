"""The simulated world of all bots, and the steps that several methods share."""

from collections.abc import Callable
from typing import Any

from services.simulators.state import Shared
from services.simulators.telegram.bots import Bot, Bots
from services.simulators.telegram.chats import DRAFT_SECONDS, TYPING_SECONDS, Chat, Chats, Message
from services.simulators.telegram.entities import Entity
from services.simulators.telegram.errors import bad_request
from services.simulators.telegram.limits import FloodControl
from services.simulators.telegram.media import Files


class World:
    def __init__(self, shared: Shared) -> None:
        self._feed = shared.feed
        self.clock: Callable[[], float] = shared.clock
        self.bots = Bots(clock=shared.clock, first=shared.first)
        self.chats = Chats(first=shared.first)
        self.files = Files()
        self.flood = FloodControl(clock=shared.clock)

    def sent(
        self,
        bot: Bot,
        chat: Chat,
        params: dict[str, Any],
        *,
        text: str,
        entities: list[Entity],
        file: dict[str, Any] | None = None,
    ) -> Message:
        """Post a message of the bot as the common parameters say; raises `ApiError`."""
        thread = params.get("message_thread_id")
        chat.check_topic(thread)
        reply_to = _reply(chat, params.get("reply_parameters"))
        self.flood.spend(bot.id, chat.id)
        message = Message(
            id=chat.next_id(),
            bot=bot.id,
            from_bot=True,
            sender=bot.user(),
            at=self.clock(),
            text=text,
            entities=entities,
            thread=thread,
            reply_to=reply_to,
            markup=params.get("reply_markup"),
            file=file,
        )
        chat.typing = chat.draft = None
        self.keep(chat, message)
        return message

    def keep(self, chat: Chat, message: Message) -> None:
        chat.add(message)
        self.show(chat, message)

    def show(self, chat: Chat, message: Message) -> None:
        if self._feed:
            self._publish(message.bot, chat, "message", message=message.visible())

    def show_typing(self, bot: Bot, chat: Chat) -> None:
        chat.typing = (bot.id, self.clock() + TYPING_SECONDS)
        if self._feed:
            self._publish(bot.id, chat, "typing", seconds=TYPING_SECONDS)

    def show_draft(self, bot: Bot, chat: Chat, draft: int, text: str) -> None:
        chat.draft = (draft, text, self.clock() + DRAFT_SECONDS)
        if self._feed:
            self._publish(bot.id, chat, "draft", draft={"id": draft, "text": text}, seconds=DRAFT_SECONDS)

    def as_json(self, chat: Chat, message: Message, *, with_reply: bool = True) -> dict[str, Any]:
        """A message as the API answers it."""
        answer: dict[str, Any] = {
            "message_id": message.id,
            "from": message.sender,
            "chat": chat.as_json(),
            "date": int(message.at),
        }
        answer |= _content(message)
        if message.edited_at is not None:
            answer["edit_date"] = int(message.edited_at)
        if message.thread is not None:
            answer |= {"message_thread_id": message.thread, "is_topic_message": True}
        if isinstance(message.markup, dict) and "inline_keyboard" in message.markup:
            answer["reply_markup"] = message.markup
        replied = chat.existing(message.reply_to) if with_reply and message.reply_to else None
        if replied is not None:
            answer["reply_to_message"] = self.as_json(chat, replied, with_reply=False)
        return answer

    def _publish(self, bot: int, chat: Chat, kind: str, **data: Any) -> None:
        self._feed.publish({"platform": "telegram", "kind": kind, "bot": str(bot), "chat": chat.id, **data})


def _content(message: Message) -> dict[str, Any]:
    if message.file is None:
        content: dict[str, Any] = {"text": message.text}
        return content | ({"entities": message.entities} if message.entities else {})
    content = {message.file["kind"]: message.file["described"]}
    if message.text:
        content["caption"] = message.text
    return content | ({"caption_entities": message.entities} if message.entities else {})


def _reply(chat: Chat, parameters: Any) -> int | None:
    """The message that is replied to; one that is gone is refused unless the call allows that."""
    wanted = parameters.get("message_id") if isinstance(parameters, dict) else None
    if wanted is None:
        return None
    if chat.existing(wanted) is not None:
        return int(wanted)
    if parameters.get("allow_sending_without_reply") is True:
        return None
    raise bad_request("message to be replied not found")
