"""The parts of the Bot API that this add-on reads; all other fields are ignored (they grow with each release).

Source: core.telegram.org/bots/api, types Update, Message, Chat, User and MessageEntity.
"""

import msgspec


class User(msgspec.Struct):
    id: int
    first_name: str = ""
    last_name: str = ""
    username: str = ""
    is_bot: bool = False


class Chat(msgspec.Struct):
    id: int
    type: str = ""
    title: str = ""
    username: str = ""


class Entity(msgspec.Struct):
    """`offset` and `length` count UTF-16 units of the text."""

    type: str
    offset: int
    length: int
    user: User | None = None


class File(msgspec.Struct):
    """The common part of Audio, Document, PhotoSize, Video, VideoNote, Voice and Animation."""

    file_id: str
    file_unique_id: str = ""
    mime_type: str = ""
    file_size: int | None = None


class Content(msgspec.Struct):
    """Content of which only the presence matters."""


class ReplyTo(msgspec.Struct, rename={"sender": "from"}):
    message_id: int
    sender: User | None = None


class Message(msgspec.Struct, rename={"sender": "from"}):
    message_id: int
    chat: Chat
    date: int = 0
    sender: User | None = None
    sender_chat: Chat | None = None
    message_thread_id: int | None = None
    is_topic_message: bool = False
    reply_to_message: ReplyTo | None = None
    media_group_id: str = ""
    text: str = ""
    entities: list[Entity] = []
    caption: str = ""
    caption_entities: list[Entity] = []
    migrate_to_chat_id: int | None = None
    photo: list[File] = []
    document: File | None = None
    audio: File | None = None
    voice: File | None = None
    video: File | None = None
    video_note: File | None = None
    animation: File | None = None
    sticker: Content | None = None
    poll: Content | None = None
    venue: Content | None = None
    location: Content | None = None
    contact: Content | None = None
    dice: Content | None = None
    game: Content | None = None
    story: Content | None = None
    invoice: Content | None = None
    checklist: Content | None = None
    paid_media: Content | None = None
    giveaway: Content | None = None
    rich_message: Content | None = None


class Update(msgspec.Struct):
    """Kinds other than `message` are confirmed and skipped."""

    update_id: int
    message: Message | None = None


class UpdateId(msgspec.Struct):
    """What is read of an update that does not fit `Update`, so that it can be confirmed."""

    update_id: int


class WebhookInfo(msgspec.Struct):
    url: str = ""


class SentMessage(msgspec.Struct):
    message_id: int


class Parameters(msgspec.Struct):
    retry_after: float | None = None
    migrate_to_chat_id: int | None = None


class Reply(msgspec.Struct):
    """The frame of every answer."""

    ok: bool = False
    result: msgspec.Raw = msgspec.Raw(b"null")
    error_code: int = 0
    description: str = ""
    parameters: Parameters | None = None
