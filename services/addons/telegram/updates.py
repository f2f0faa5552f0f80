"""Translates updates of Telegram into inbound messages."""

import re
from dataclasses import dataclass

from services.addons.telegram.api import Entity, File, Message, Update
from shared.sdk.ops import FileKind, FileRef, Inbound, Person

#: a bot may download 20 MB from the public server; of a photo, a larger size is of no use
_LARGEST_DOWNLOAD_BYTES = 20_000_000

#: content that a bot cannot read as a message; `venue` comes first because it also fills `location`
_UNSUPPORTED = (
    "sticker", "poll", "venue", "location", "contact", "dice", "game", "story", "invoice", "checklist",
    "paid_media", "giveaway", "rich_message",
)  # fmt: skip

_EXTENSIONS = {
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/webp": ".webp",
    "image/gif": ".gif",
    "application/pdf": ".pdf",
    "text/plain": ".txt",
    "audio/ogg": ".ogg",
    "audio/mpeg": ".mp3",
    "audio/mp4": ".m4a",
    "video/mp4": ".mp4",
}


@dataclass(frozen=True)
class Bot:
    """Who reads: needed to see whether a message is meant for the bot."""

    id: int
    username: str


def inbound_of(update: Update, bot: Bot) -> Inbound | None:
    """The message in `update`; None for other kinds and for service messages that say nothing to an agent."""
    message = update.message
    if message is None:
        return None
    sender = _sender(message)
    if sender is None:
        return None
    text, addressed = _text(message, bot)
    inbound = Inbound(
        chat=str(message.chat.id),
        sender=sender,
        id=str(message.message_id),
        delivery_id=str(update.update_id),
        thread=str(message.message_thread_id or "") if message.is_topic_message else "",
        text=text,
        direct=message.chat.type == "private",
        addressed=addressed,
        reply_to=_reply_to(message),
        album=message.media_group_id,
        chat_name=message.chat.title,
        link=_link(message),
        files=_files(message),
        unsupported=next((name for name in _UNSUPPORTED if getattr(message, name) is not None), ""),
        migrated_to=str(message.migrate_to_chat_id or ""),
        sent_at=float(message.date),
    )
    says_something = inbound.text or inbound.files or inbound.unsupported or inbound.migrated_to
    return inbound if says_something or message.text or message.caption else None


def _sender(message: Message) -> Person | None:
    """A channel or an anonymous administrator writes as its chat; `from` is a placeholder then."""
    if message.sender_chat is not None:
        chat = message.sender_chat
        return Person(str(chat.id), name=chat.title, handle=chat.username)
    if message.sender is None:
        return None
    user = message.sender
    name = f"{user.first_name} {user.last_name}".strip()
    return Person(str(user.id), name=name, handle=user.username, is_bot=user.is_bot)


def _text(message: Message, bot: Bot) -> tuple[str, bool]:
    """The text without the bot's own name, and whether the message is meant for the bot."""
    text = message.text or message.caption
    entities = message.entities or message.caption_entities
    units = text.encode("utf-16-le", "surrogatepass")
    named = [entity for entity in entities if _names(entity, units, bot)]
    for entity in sorted(named, key=lambda entity: entity.offset, reverse=True):
        units = _without_name(units, entity)
    if named:
        text = units.decode("utf-16-le", "replace").strip()
    replies = _is_reply(message) and _author_of_replied(message) == bot.id
    return text, bool(named) or replies or message.chat.type == "private"


def _names(entity: Entity, units: bytes, bot: Bot) -> bool:
    """Whether the entity is `@bot`, `/command@bot` or a mention of the bot's account; names have no case."""
    if entity.type == "text_mention":
        return entity.user is not None and entity.user.id == bot.id
    at_name = f"@{bot.username}".lower()
    said = _said(units, entity).lower()
    if entity.type == "mention":
        return said == at_name
    return entity.type == "bot_command" and said.endswith(at_name)


def _without_name(units: bytes, entity: Entity) -> bytes:
    """Takes a mention out together with the space it leaves; of a command only `@bot` goes."""
    before, after = units[: entity.offset * 2], units[(entity.offset + entity.length) * 2 :]
    if entity.type == "bot_command":
        command = _said(units, entity).partition("@")[0]
        return before + command.encode("utf-16-le") + after
    left, right = (part.decode("utf-16-le", "surrogatepass") for part in (before, after))
    if not left.strip():
        right = re.sub(r"\A[\s,:]+", "", right)
    elif left[-1].isspace():
        right = right.removeprefix(" ")
    return (left + right).encode("utf-16-le", "surrogatepass")


def _said(units: bytes, entity: Entity) -> str:
    part = units[entity.offset * 2 : (entity.offset + entity.length) * 2]
    return part.decode("utf-16-le", "replace")


def _is_reply(message: Message) -> bool:
    """In a topic, a message that answers nothing shows the topic's first message as the one replied to."""
    replied = message.reply_to_message
    if replied is None:
        return False
    return not (message.is_topic_message and replied.message_id == message.message_thread_id)


def _reply_to(message: Message) -> str:
    replied = message.reply_to_message
    return str(replied.message_id) if replied is not None and _is_reply(message) else ""


def _author_of_replied(message: Message) -> int | None:
    replied = message.reply_to_message
    return replied.sender.id if replied is not None and replied.sender is not None else None


def _link(message: Message) -> str:
    """The address of a message in a supergroup; other chats have none."""
    if message.chat.type != "supergroup":
        return ""
    place = message.chat.username or "c/" + str(message.chat.id).removeprefix("-100")
    return f"https://t.me/{place}/{message.message_id}"


def _files(message: Message) -> list[FileRef]:
    """References only. An animation also fills `document`, with the same file."""
    if message.photo:
        return [_reference(_best_size(message.photo), "photo", "image", "image/jpeg")]
    if message.animation is not None:
        return [_reference(message.animation, "animation", "video", "video/mp4")]
    found: tuple[tuple[File | None, str, FileKind, str], ...] = (
        (message.voice, "voice", "voice", "audio/ogg"),
        (message.audio, "audio", "audio", "audio/mpeg"),
        (message.video, "video", "video", "video/mp4"),
        (message.video_note, "video", "video", "video/mp4"),
        (message.document, "document", "document", ""),
    )
    return [_reference(file, word, kind, mime) for file, word, kind, mime in found if file is not None]


def _best_size(sizes: list[File]) -> File:
    """Sizes come smallest first; the largest that a bot may download, else the smallest."""
    fitting = [size for size in sizes if (size.file_size or 0) <= _LARGEST_DOWNLOAD_BYTES]
    return fitting[-1] if fitting else sizes[0]


def _reference(file: File, word: str, kind: FileKind, mime: str) -> FileRef:
    """The file gets a name of our own: the sender's choice never reaches the owner's files."""
    mime = file.mime_type or mime
    name = f"{word}-{file.file_unique_id}{_EXTENSIONS.get(mime, '')}"
    return FileRef(ref=file.file_id, name=name, mime=mime, size=file.file_size, kind=kind)
