"""Updates as the platform sends them, and the messages that the host gets."""

from typing import Any

import msgspec
import pytest

from services.addons.telegram.api import Update
from services.addons.telegram.updates import Bot, inbound_of
from shared.sdk.ops import FileRef, Inbound, Person

BOT = Bot(id=111, username="Helper_Bot")
ADA = {"id": 5001, "is_bot": False, "first_name": "Ada", "last_name": "L", "username": "ada"}
GROUP = {"id": -1001234, "type": "supergroup", "title": "Team"}
PRIVATE = {"id": 5001, "type": "private", "first_name": "Ada"}


def read(**message: Any) -> Inbound | None:
    """The inbound message of one update; a message of Ada in the group unless told otherwise."""
    content = {"message_id": 7, "date": 1_700_000_000, "from": ADA, "chat": GROUP} | message
    raw = msgspec.json.encode({"update_id": 900, "message": content})
    return inbound_of(msgspec.json.decode(raw, type=Update), BOT)


def got(**message: Any) -> Inbound:
    inbound = read(**message)
    assert inbound is not None
    return inbound


def marked(text: str, kind: str, said: str, **more: Any) -> dict[str, Any]:
    """A text with one entity over `said`, counted in UTF-16 units."""
    offset = len(text[: text.index(said)].encode("utf-16-le")) // 2
    length = len(said.encode("utf-16-le")) // 2
    return {"text": text, "entities": [{"type": kind, "offset": offset, "length": length, **more}]}


def test_a_group_message_carries_who_where_and_when() -> None:
    assert got(text="hi") == Inbound(
        chat="-1001234",
        sender=Person("5001", name="Ada L", handle="ada"),
        id="7",
        delivery_id="900",
        text="hi",
        chat_name="Team",
        link="https://t.me/c/1234/7",
        sent_at=1_700_000_000.0,
    )


def test_a_private_message_is_direct_and_addressed() -> None:
    inbound = got(text="hi", chat=PRIVATE)
    assert (inbound.direct, inbound.addressed, inbound.link) == (True, True, "")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (marked("@Helper_Bot what now?", "mention", "@Helper_Bot"), "what now?"),
        (marked("@helper_bot: what now?", "mention", "@helper_bot"), "what now?"),
        (marked("🏟 hey @HELPER_BOT do it", "mention", "@HELPER_BOT"), "🏟 hey do it"),
        (marked("thanks @Helper_Bot", "mention", "@Helper_Bot"), "thanks"),
        (marked("thanks, @Helper_Bot!", "mention", "@Helper_Bot"), "thanks, !"),
        (marked("Helper please", "text_mention", "Helper", user={"id": 111}), "please"),
        (marked("/new@Helper_Bot", "bot_command", "/new@Helper_Bot"), "/new"),
        (marked("/ask@helper_bot why", "bot_command", "/ask@helper_bot"), "/ask why"),
        (marked("@Helper_Bot", "mention", "@Helper_Bot"), ""),
    ],
)
def test_naming_the_bot_addresses_it_and_the_name_is_taken_out(message: dict[str, Any], text: str) -> None:
    inbound = got(**message)
    assert inbound.addressed
    assert inbound.text == text


@pytest.mark.parametrize(
    "message",
    [
        {"text": "just talk"},
        {"text": "@Helper_Bot without an entity"},
        marked("@Other_Bot hello", "mention", "@Other_Bot"),
        marked("@Helper_Bot2 hello", "mention", "@Helper_Bot2"),
        marked("Bob hello", "text_mention", "Bob", user={"id": 112}),
        marked("/new", "bot_command", "/new"),
        marked("/new@Other_Bot", "bot_command", "/new@Other_Bot"),
    ],
)
def test_other_group_messages_are_not_addressed_and_stay_as_they_are(message: dict[str, Any]) -> None:
    inbound = got(**message)
    assert not inbound.addressed
    assert inbound.text == message["text"]


def test_an_answer_to_the_bot_is_addressed_and_names_the_message() -> None:
    inbound = got(
        text="yes", reply_to_message={"message_id": 6, "from": {"id": 111}, "date": 1, "chat": GROUP}
    )
    assert (inbound.addressed, inbound.reply_to) == (True, "6")


def test_an_answer_to_somebody_else_is_not_addressed() -> None:
    inbound = got(text="yes", reply_to_message={"message_id": 6, "from": {"id": 5}, "date": 1, "chat": GROUP})
    assert (inbound.addressed, inbound.reply_to) == (False, "6")


def test_a_topic_is_a_thread_and_its_first_message_is_no_answer() -> None:
    topic = {"message_thread_id": 44, "is_topic_message": True}
    inbound = got(text="hi", **topic, reply_to_message={"message_id": 44, "from": {"id": 111}})
    assert (inbound.thread, inbound.addressed, inbound.reply_to) == ("44", False, "")
    assert got(text="hi", **topic, reply_to_message={"message_id": 45, "from": {"id": 111}}).addressed


def test_a_thread_id_outside_a_topic_is_no_thread() -> None:
    assert got(text="hi", message_thread_id=44).thread == ""


def test_a_channel_or_an_anonymous_administrator_writes_as_its_chat() -> None:
    placeholder = {"id": 1087968824, "is_bot": True, "first_name": "Group", "username": "GroupAnonymousBot"}
    inbound = got(text="hi", **{"from": placeholder}, sender_chat=GROUP)
    assert inbound.sender == Person("-1001234", name="Team")


def test_another_bot_is_flagged() -> None:
    assert got(text="hi", **{"from": {"id": 9, "is_bot": True, "first_name": "B"}}).sender.is_bot


def test_a_caption_is_the_text_and_the_best_size_of_a_photo_its_file() -> None:
    sizes = [
        {"file_id": f"id-{n}", "file_unique_id": f"u{n}", "width": n, "height": n, "file_size": size}
        for n, size in enumerate([1_000, 19_000_000, 30_000_000])
    ]
    caption = marked("@Helper_Bot look", "mention", "@Helper_Bot")
    inbound = got(
        photo=sizes, caption=caption["text"], caption_entities=caption["entities"], media_group_id="album-1"
    )
    assert (inbound.text, inbound.addressed, inbound.album) == ("look", True, "album-1")
    assert inbound.files == [FileRef("id-1", "photo-u1.jpg", "image/jpeg", 19_000_000, "image")]


@pytest.mark.parametrize(
    ("field", "mime", "name", "kind"),
    [
        ("voice", "audio/ogg", "voice-u.ogg", "voice"),
        ("audio", "audio/mpeg", "audio-u.mp3", "audio"),
        ("video", "video/mp4", "video-u.mp4", "video"),
        ("video_note", "", "video-u.mp4", "video"),
        ("document", "application/pdf", "document-u.pdf", "document"),
        ("document", "application/x-evil", "document-u", "document"),
    ],
)
def test_a_file_is_a_reference_under_a_name_of_our_own(field: str, mime: str, name: str, kind: str) -> None:
    file = {"file_id": "f", "file_unique_id": "u", "mime_type": mime, "file_name": "../../evil name.pdf"}
    [reference] = got(**{field: file}).files
    assert (reference.ref, reference.name, reference.kind) == ("f", name, kind)


def test_an_animation_is_one_file() -> None:
    file = {"file_id": "f", "file_unique_id": "u", "mime_type": "video/mp4"}
    assert len(got(animation=file, document=file).files) == 1


@pytest.mark.parametrize(
    "field", ["sticker", "poll", "location", "contact", "dice", "game", "story", "invoice", "checklist"]
)
def test_content_that_a_bot_cannot_read_is_named(field: str) -> None:
    assert got(**{field: {"any": "thing"}}).unsupported == field


def test_a_venue_is_named_once() -> None:
    assert got(venue={}, location={}).unsupported == "venue"


def test_a_migration_is_told() -> None:
    inbound = got(chat={"id": -4001, "type": "group"}, migrate_to_chat_id=-1004001)
    assert (inbound.chat, inbound.migrated_to) == ("-4001", "-1004001")


@pytest.mark.parametrize(
    "service",
    [
        {"new_chat_title": "X"},
        {"new_chat_members": [ADA]},
        {"migrate_from_chat_id": -4001},
        {"pinned_message": {}},
    ],
)
def test_other_service_messages_say_nothing_to_an_agent(service: dict[str, Any]) -> None:
    assert read(**service) is None


def test_updates_of_other_kinds_say_nothing() -> None:
    update = msgspec.convert({"update_id": 1, "poll_answer": {"poll_id": "x"}, "brand_new": 1}, Update)
    assert inbound_of(update, BOT) is None
