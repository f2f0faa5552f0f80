"""What each method of the Bot API does to the simulated world. Errors are raised as `ApiError`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from services.simulators.telegram.bots import Bot
from services.simulators.telegram.chats import Chat, Message
from services.simulators.telegram.errors import NOT_MODIFIED, bad_request
from services.simulators.telegram.files import METHODS as FILE_METHODS
from services.simulators.telegram.formatting import draft_text, message_text
from services.simulators.telegram.world import World

Params = dict[str, Any]
Method = Callable[[World, Bot, Params], Any]

DELETABLE_SECONDS = 48 * 3600.0
ACTIONS = frozenset({
    "typing", "upload_photo", "record_video", "upload_video", "record_voice", "upload_voice", "upload_document",
    "choose_sticker", "find_location", "record_video_note", "upload_video_note",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Described:
    """A result that comes with a sentence."""

    result: Any
    description: str


def get_me(_world: World, bot: Bot, _params: Params) -> Any:
    return bot.me()


def get_chat(world: World, bot: Bot, params: Params) -> Any:
    chat = world.chats.access(bot, params.get("chat_id"))
    described = chat.as_json()
    return described | {"accent_color_id": 0, "max_reaction_count": 11, "accepted_gift_types": _NO_GIFTS}


_NO_GIFTS = {
    "unlimited_gifts": False,
    "limited_gifts": False,
    "unique_gifts": False,
    "premium_subscription": False,
    "gifts_from_channels": False,
}


def send_message(world: World, bot: Bot, params: Params) -> Any:
    chat = world.chats.access(bot, params.get("chat_id"))
    text, entities = message_text(params)
    message = world.sent(bot, chat, params, text=text, entities=entities)
    previews = params.get("link_preview_options")
    return world.as_json(chat, message) | ({"link_preview_options": previews} if previews else {})


def edit_message_text(world: World, bot: Bot, params: Params) -> Any:
    chat = world.chats.access(bot, params.get("chat_id"))
    message = _own_message(chat, bot, params)
    text, entities = message_text(params)
    content = (text, entities, params.get("reply_markup"))
    if content == (message.text, message.entities, message.markup):
        raise bad_request(NOT_MODIFIED)
    world.flood.spend(bot.id, chat.id)
    message.text, message.entities, message.markup = content
    message.edits += 1
    message.edited_at = world.clock()
    world.show(chat, message)
    return world.as_json(chat, message)


def _own_message(chat: Chat, bot: Bot, params: Params) -> Message:
    message = chat.existing(params.get("message_id"))
    if message is None:
        raise bad_request("message to edit not found")
    if not message.from_bot or message.bot != bot.id or message.file is not None:
        raise bad_request("message can't be edited")
    return message


def delete_message(world: World, bot: Bot, params: Params) -> Any:
    chat = world.chats.access(bot, params.get("chat_id"))
    message = chat.existing(params.get("message_id"))
    if message is None:
        raise bad_request("message to delete not found")
    own = message.from_bot and message.bot == bot.id
    if not (own or chat.is_private) or world.clock() - message.at > DELETABLE_SECONDS:
        raise bad_request("message can't be deleted")
    message.deleted = True
    world.show(chat, message)
    return True


def send_chat_action(world: World, bot: Bot, params: Params) -> Any:
    chat = world.chats.access(bot, params.get("chat_id"))
    if params.get("action") not in ACTIONS:
        raise bad_request("wrong parameter action in request")
    chat.check_topic(params.get("message_thread_id"))
    world.show_typing(bot, chat)
    return True


def send_message_draft(world: World, bot: Bot, params: Params) -> Any:
    chat = world.chats.access(bot, params.get("chat_id"))
    if not chat.is_private:
        raise bad_request("TEXTDRAFT_PEER_INVALID")
    draft = params.get("draft_id")
    if not isinstance(draft, int) or draft == 0:
        raise bad_request("wrong parameter draft_id in request")
    chat.check_topic(params.get("message_thread_id"))
    world.show_draft(bot, chat, draft, draft_text(params)[0])
    return True


def set_message_reaction(world: World, bot: Bot, params: Params) -> Any:
    chat = world.chats.access(bot, params.get("chat_id"))
    if chat.existing(params.get("message_id")) is None:
        raise bad_request("message to react not found")
    return True


def set_my_commands(_world: World, _bot: Bot, _params: Params) -> Any:
    return True


def set_webhook(_world: World, bot: Bot, params: Params) -> Any:
    """Nothing is delivered to the address; what matters is that polling is refused while it is set."""
    bot.updates.set_webhook(str(params.get("url") or ""))
    _drop_if_asked(bot, params)
    return Described(True, "Webhook was set" if bot.updates.webhook else "Webhook was deleted")


def delete_webhook(_world: World, bot: Bot, params: Params) -> Any:
    was_set = bool(bot.updates.webhook)
    bot.updates.set_webhook("")
    _drop_if_asked(bot, params)
    return Described(True, "Webhook was deleted" if was_set else "Webhook is already deleted")


def _drop_if_asked(bot: Bot, params: Params) -> None:
    if params.get("drop_pending_updates") is True:
        bot.updates.drop_all()


def get_webhook_info(_world: World, bot: Bot, _params: Params) -> Any:
    info: Params = {
        "url": bot.updates.webhook,
        "has_custom_certificate": False,
        "pending_update_count": len(bot.updates),
    }
    return info | ({"allowed_updates": bot.updates.allowed} if bot.updates.allowed else {})


METHODS: dict[str, Method] = {
    "getMe": get_me,
    "getChat": get_chat,
    "sendMessage": send_message,
    "editMessageText": edit_message_text,
    "deleteMessage": delete_message,
    "sendChatAction": send_chat_action,
    "sendMessageDraft": send_message_draft,
    "setMessageReaction": set_message_reaction,
    "setMyCommands": set_my_commands,
    "setWebhook": set_webhook,
    "deleteWebhook": delete_webhook,
    "getWebhookInfo": get_webhook_info,
    **FILE_METHODS,
}
"""By official name; getUpdates, which waits, is the queue's own (`Updates.poll`)."""

NAMES = {name.lower(): name for name in (*METHODS, "getUpdates")}
"""Names are matched without case; the log and the contract know the official spelling."""
