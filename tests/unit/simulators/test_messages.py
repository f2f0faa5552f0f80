import json
from typing import Any

import aiohttp
import pytest

from services.simulators.contracts import Contract
from services.simulators.telegram import errors
from tests.support.simulation import TOKEN, Sim
from tests.support.spec import spec_path

CATALOG = json.loads(spec_path("contracts/telegram/errors.json").read_text())["errors"]
WORDS = {entry["body"]["description"] for entry in CATALOG}
GROUP = -1001
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452")


def png(width: int, height: int) -> bytes:
    return PNG + width.to_bytes(4, "big") + height.to_bytes(4, "big")


async def test_a_sent_message_is_answered_and_visible_without_markup(sim: Sim) -> None:
    await sim.says("hi")
    sent = await sim.result("sendMessage", chat_id=5001, text="*Ok* 2\\.5", parse_mode="MarkdownV2")
    assert sent["text"] == "Ok 2.5"
    assert sent["entities"] == [{"type": "bold", "offset": 0, "length": 2}]
    assert sent["from"]["username"] == "sim111_bot"
    shown = (await sim.shown())[-1]
    assert {name: shown[name] for name in ("id", "from_bot", "text", "edits", "deleted")} == {
        "id": sent["message_id"],
        "from_bot": True,
        "text": "Ok 2.5",
        "edits": 0,
        "deleted": False,
    }


async def test_entities_may_be_given_instead_of_markup(sim: Sim) -> None:
    await sim.says("hi")
    bold = {"type": "bold", "offset": 0, "length": 2}
    sent = await sim.result("sendMessage", chat_id=5001, text="Ok", entities=[bold])
    assert sent["entities"] == [bold]


async def test_the_server_finds_links_and_keeps_their_underscores(sim: Sim) -> None:
    await sim.says("hi")
    text = "See https://ex.test/a_b/c and https://ex.test/d_e/f."
    sent = await sim.result("sendMessage", chat_id=5001, text=text)
    found = [text[each["offset"] : each["offset"] + each["length"]] for each in sent["entities"]]
    assert found == ["https://ex.test/a_b/c", "https://ex.test/d_e/f"]


async def test_link_preview_options_are_accepted_and_answered(sim: Sim) -> None:
    await sim.says("hi")
    sent = await sim.result("sendMessage", chat_id=5001, text="x", link_preview_options={"is_disabled": True})
    assert sent["link_preview_options"] == {"is_disabled": True}


async def test_an_edit_replaces_the_text_and_is_counted(sim: Sim) -> None:
    await sim.says("hi")
    sent = await sim.result("sendMessage", chat_id=5001, text="Working…")
    edited = await sim.result("editMessageText", chat_id=5001, message_id=sent["message_id"], text="Done")
    assert (edited["text"], edited["edit_date"]) == ("Done", int(sim.clock.now))
    shown = (await sim.shown())[-1]
    assert (shown["text"], shown["edits"]) == ("Done", 1)


async def test_an_edit_that_changes_nothing_is_refused(sim: Sim) -> None:
    await sim.says("hi")
    sent = await sim.result("sendMessage", chat_id=5001, text="*Done*", parse_mode="MarkdownV2")
    refusal = await sim.refusal(
        "editMessageText",
        chat_id=5001,
        message_id=sent["message_id"],
        text="*Done*",
        parse_mode="MarkdownV2",
    )
    assert "message is not modified" in refusal
    assert refusal in WORDS
    assert (await sim.shown())[-1]["edits"] == 0
    await sim.result("editMessageText", chat_id=5001, message_id=sent["message_id"], text="Done")


async def test_a_deleted_message_is_gone_but_shown_as_deleted(sim: Sim) -> None:
    await sim.says("hi")
    sent = await sim.result("sendMessage", chat_id=5001, text="x")
    where: dict[str, Any] = {"chat_id": 5001, "message_id": sent["message_id"]}
    assert await sim.result("deleteMessage", **where) is True
    assert (await sim.shown())[-1]["deleted"] is True
    assert await sim.refusal("deleteMessage", **where) == "Bad Request: message to delete not found"
    assert await sim.refusal("editMessageText", **where, text="y") == "Bad Request: message to edit not found"


async def test_a_bot_deletes_what_people_wrote_in_private_chats_only(sim: Sim) -> None:
    await sim.says("hi")
    await sim.says("hi", chat=GROUP)
    assert await sim.result("deleteMessage", chat_id=5001, message_id=1) is True
    refusal = await sim.refusal("deleteMessage", chat_id=GROUP, message_id=1)
    assert refusal == "Bad Request: message can't be deleted"


async def test_a_message_cannot_be_deleted_after_two_days(sim: Sim) -> None:
    await sim.says("hi")
    sent = await sim.result("sendMessage", chat_id=5001, text="x")
    sim.clock.now += 48 * 3600 + 1
    refusal = await sim.refusal("deleteMessage", chat_id=5001, message_id=sent["message_id"])
    assert refusal == "Bad Request: message can't be deleted"


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"chat_id": 5001, "text": ""}, "message text is empty"),
        ({"chat_id": 5001, "text": " \n "}, "message text is empty"),
        ({"chat_id": 5001, "text": "__", "parse_mode": "MarkdownV2"}, None),
        ({"chat_id": 5001}, "message text is empty"),
        ({"text": "x"}, "chat_id is empty"),
        ({"chat_id": 5999, "text": "x"}, "chat not found"),
        ({"chat_id": "@nobody", "text": "x"}, "chat not found"),
        ({"chat_id": 5001, "text": "x" * 4097}, "message is too long"),
        ({"chat_id": 5001, "text": "🏟" * 2049}, "message is too long"),
        ({"chat_id": 5001, "text": "x" * 32769}, "text is too long"),
        ({"chat_id": 5001, "text": "é" * 16385}, "text is too long"),
        ({"chat_id": 5001, "text": "x", "parse_mode": "Wiki"}, "unsupported parse_mode"),
        ({"chat_id": 5001, "text": "x", "message_thread_id": 9}, "message thread not found"),
        (
            {"chat_id": 5001, "text": "x", "reply_parameters": {"message_id": 99}},
            "message to be replied not found",
        ),
        (
            {"chat_id": 5001, "text": "Ok.", "parse_mode": "MarkdownV2"},
            "can't parse entities: Character '.' is reserved and must be escaped with the preceding '\\'",
        ),
    ],
)
async def test_a_send_is_refused_in_the_words_of_the_platform(
    sim: Sim, params: dict[str, Any], words: str | None
) -> None:
    await sim.says("hi")
    refusal = await sim.refusal("sendMessage", **params)
    if words is not None:
        assert refusal == f"Bad Request: {words}"
        assert refusal in WORDS
    assert len(await sim.shown()) == 1


async def test_the_longest_text_counts_utf16_units_after_parsing(sim: Sim) -> None:
    await sim.says("hi")
    escaped = "\\." * 4096
    sent = await sim.result("sendMessage", chat_id=5001, text=escaped, parse_mode="markdownv2")
    assert sent["text"] == "." * 4096


async def test_html_is_refused_clearly(sim: Sim) -> None:
    await sim.says("hi")
    refusal = await sim.refusal("sendMessage", chat_id=5001, text="<b>x</b>", parse_mode="HTML")
    assert "the simulator reads MarkdownV2 only" in refusal


async def test_only_the_bots_own_texts_can_be_edited(sim: Sim) -> None:
    await sim.says("hi")
    refusal = await sim.refusal("editMessageText", chat_id=5001, message_id=1, text="x")
    assert refusal == "Bad Request: message can't be edited"


async def test_topics_must_exist_and_be_open(sim: Sim) -> None:
    await sim.says("hi", chat=GROUP, thread=7)
    sent = await sim.result("sendMessage", chat_id=GROUP, text="x", message_thread_id=7)
    assert (sent["message_thread_id"], sent["is_topic_message"]) == (7, True)
    other: dict[str, Any] = {"chat_id": GROUP, "text": "x", "message_thread_id": 8}
    assert await sim.refusal("sendMessage", **other) == "Bad Request: message thread not found"
    await sim.post("telegram/chats", {"bot": TOKEN, "chat": GROUP, "closed_topics": [8]})
    assert await sim.refusal("sendMessage", **other) == "Bad Request: TOPIC_CLOSED"


async def test_a_reply_to_a_message_that_is_gone_can_be_allowed(sim: Sim) -> None:
    await sim.says("hi")
    wanted = {"message_id": 99, "allow_sending_without_reply": True}
    sent = await sim.result("sendMessage", chat_id=5001, text="x", reply_parameters=wanted)
    assert "reply_to_message" not in sent


async def test_a_private_chat_belongs_to_one_bot_and_a_group_to_all(sim: Sim) -> None:
    second = "222:secret-of-the-second-bot"
    for token in (TOKEN, second):
        await sim.says("hi", token=token)
        await sim.says("hi", token=token, chat=GROUP)
        await sim.result("sendMessage", token, chat_id=5001, text=f"from {token[:3]}")
        await sim.result("sendMessage", token, chat_id=GROUP, text=f"from {token[:3]}")
    assert [entry["text"] for entry in await sim.shown(bot=TOKEN)] == ["hi", "from 111"]
    assert [entry["text"] for entry in await sim.shown(bot="222")] == ["hi", "from 222"]
    assert len(await sim.shown()) == 4
    assert [entry["id"] for entry in await sim.shown(GROUP)] == [1, 2, 3, 4]


async def test_typing_shows_for_five_seconds_or_until_the_next_message(sim: Sim) -> None:
    await sim.says("hi")
    await sim.result("sendChatAction", chat_id=5001, action="typing")
    assert (await sim.get("telegram/messages", chat=5001))["typing"] == ["111"]
    sim.clock.now += 6
    assert (await sim.get("telegram/messages", chat=5001))["typing"] == []
    await sim.result("sendChatAction", chat_id=5001, action="typing")
    await sim.result("sendMessage", chat_id=5001, text="x")
    assert (await sim.get("telegram/messages", chat=5001))["typing"] == []
    refusal = await sim.refusal("sendChatAction", chat_id=5001, action="dancing")
    assert refusal == "Bad Request: wrong parameter action in request"


async def test_a_draft_lives_until_the_next_message_or_thirty_seconds(sim: Sim) -> None:
    await sim.says("hi")
    draft: dict[str, Any] = {"chat_id": 5001, "draft_id": 7, "text": "*part*", "parse_mode": "MarkdownV2"}
    assert await sim.result("sendMessageDraft", **draft) is True
    assert (await sim.get("telegram/messages", chat=5001))["drafts"] == [{"id": 7, "text": "part"}]
    sim.clock.now += 31
    assert (await sim.get("telegram/messages", chat=5001))["drafts"] == []
    await sim.result("sendMessageDraft", **draft)
    await sim.result("sendMessage", chat_id=5001, text="whole")
    page = await sim.get("telegram/messages", chat=5001)
    assert (page["drafts"], page["messages"][-1]["text"]) == ([], "whole")


async def test_drafts_are_for_private_chats(sim: Sim) -> None:
    await sim.says("hi", chat=GROUP)
    refusal = await sim.refusal("sendMessageDraft", chat_id=GROUP, draft_id=1, text="x")
    assert refusal == "Bad Request: TEXTDRAFT_PEER_INVALID"


@pytest.mark.parametrize(
    ("token", "words"),
    [
        ("no-colon", "Unauthorized: invalid token specified"),
        ("0:starts-with-zero", "Unauthorized: invalid token specified"),
        (f"1:{'x' * 80}", "Unauthorized: invalid token specified"),
        ("333:refused", "Unauthorized"),
    ],
)
async def test_tokens_are_refused_in_the_words_of_the_platform(sim: Sim, token: str, words: str) -> None:
    await sim.post("telegram/bots", {"token": "333:refused", "refuse": True})
    assert await sim.tg("getMe", token) == (401, {"ok": False, "error_code": 401, "description": words})


async def test_a_refused_token_can_be_accepted_again_and_others_of_the_bot_work(sim: Sim) -> None:
    await sim.post("telegram/bots", {"token": "333:old", "refuse": True})
    assert (await sim.result("getMe", "333:new"))["id"] == 333
    await sim.post("telegram/bots", {"token": "333:old", "refuse": False, "username": "named_bot"})
    assert (await sim.result("getMe", "333:old"))["username"] == "named_bot"


async def test_unknown_methods_and_paths_are_not_found(sim: Sim) -> None:
    assert await sim.refusal("noSuchMethod") == "Not Found: method not found"
    async with sim.http.get(f"{sim.url}/bot{TOKEN}") as response:
        assert (response.status, (await response.json())["description"]) == (404, "Not Found")


async def test_method_names_are_matched_without_case(sim: Sim) -> None:
    assert (await sim.result("GETME"))["id"] == 111
    assert (await sim.get("telegram/calls"))["calls"][0]["method"] == "getMe"


async def test_a_request_that_breaks_the_contract_is_refused(sim: Sim) -> None:
    await sim.says("hi")
    for extra in ({"colour": "red"}, {"disable_notification": "often"}):
        refusal = await sim.refusal("sendMessage", chat_id=5001, text="x", **extra)
        assert refusal == f"Bad Request: wrong parameter {next(iter(extra))} in request"
    assert await sim.refusal("getUpdates", limit=0) == "Bad Request: wrong parameter limit in request"


async def test_bodies_that_cannot_be_read_are_refused(sim: Sim) -> None:
    url = f"{sim.url}/bot{TOKEN}/sendMessage"
    for body in ("{", "[]"):
        async with sim.http.post(url, data=body, headers={"Content-Type": "application/json"}) as response:
            assert response.status == 400
    async with sim.http.post(url, data={"chat_id": "5001", "text": "x", "entities": "["}) as response:
        assert "can't parse entities JSON object" in (await response.json())["description"]


@pytest.mark.parametrize(
    "refusal",
    ["blocked", "deactivated", "not_started", "is_bot", "kicked_group", "kicked_supergroup", "kicked_channel",
     "not_member", "deleted_group", "no_text_rights", "no_photo_rights"],
)  # fmt: skip
async def test_a_chat_can_refuse_in_the_words_of_the_platform(sim: Sim, refusal: str) -> None:
    await sim.post("telegram/chats", {"bot": TOKEN, "chat": GROUP, "refusal": refusal})
    assert await sim.refusal("sendMessage", chat_id=GROUP, text="x") in WORDS
    await sim.post("telegram/chats", {"bot": TOKEN, "chat": GROUP, "refusal": None})
    await sim.result("sendMessage", chat_id=GROUP, text="x")


async def test_a_migrated_group_names_its_successor(sim: Sim) -> None:
    await sim.says("hi", chat=-4001)
    service = {
        "message_id": 2,
        "date": 1,
        "chat": {"id": -4001, "type": "group", "title": "Club"},
        "migrate_to_chat_id": -1004001,
    }
    status, _ = await sim.post("telegram/events", {"bot": TOKEN, "update": {"message": service}})
    assert status == 200
    status, body = await sim.tg("sendMessage", chat_id=-4001, text="x")
    assert (status, body["parameters"]) == (400, {"migrate_to_chat_id": -1004001})
    assert body["description"] in WORDS
    assert (await sim.result("sendMessage", chat_id=-1004001, text="x"))["chat"]["type"] == "supergroup"


async def test_an_edited_message_of_a_person_is_one_message(sim: Sim) -> None:
    await sim.says("hi")
    message = {
        "message_id": 1,
        "date": 1,
        "edit_date": 2,
        "chat": {"id": 5001, "type": "private"},
        "from": {"id": 5001, "is_bot": False, "first_name": "Ada"},
        "text": "hello",
    }
    await sim.post("telegram/events", {"bot": TOKEN, "update": {"edited_message": message}})
    assert [(entry["text"], entry["edits"]) for entry in await sim.shown()] == [("hello", 1)]


async def test_a_photo_is_sent_with_its_caption(sim: Sim) -> None:
    await sim.says("hi")
    form = aiohttp.FormData({"chat_id": "5001", "caption": "*A* picture", "parse_mode": "MarkdownV2"})
    form.add_field("photo", png(40, 30), filename="a.png", content_type="image/png")
    async with sim.http.post(f"{sim.url}/bot{TOKEN}/sendPhoto", data=form) as response:
        sent = (await response.json())["result"]
    assert (sent["photo"][0]["width"], sent["caption"]) == (40, "A picture")
    assert (await sim.shown())[-1]["file"] == {"kind": "photo", "name": "a.png", "size": 24}
    again = await sim.result("sendPhoto", chat_id=5001, photo=sent["photo"][0]["file_id"])
    assert again["photo"][0]["file_id"] == sent["photo"][0]["file_id"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no picture", "IMAGE_PROCESS_FAILED"),
        (png(10_000, 1), "PHOTO_INVALID_DIMENSIONS"),
        (png(6000, 5000), "PHOTO_INVALID_DIMENSIONS"),
    ],
)
async def test_photos_are_held_to_the_rules_of_the_platform(sim: Sim, content: bytes, words: str) -> None:
    await sim.says("hi")
    form = aiohttp.FormData({"chat_id": "5001"})
    form.add_field("photo", content, filename="a.png")
    async with sim.http.post(f"{sim.url}/bot{TOKEN}/sendPhoto", data=form) as response:
        assert (await response.json())["description"] == f"Bad Request: {words}"
    assert len(await sim.shown()) == 1


async def test_a_document_without_a_file_is_refused(sim: Sim) -> None:
    await sim.says("hi")
    refusal = await sim.refusal("sendPhoto", chat_id=5001)
    assert refusal == "Bad Request: there is no photo in the request"


async def test_a_file_of_a_person_can_be_fetched(sim: Sim) -> None:
    async with sim.http.post(f"{sim.url}/_sim/telegram/files?name=a.txt", data=b"hello") as response:
        file = (await response.json())["file"]
    described = await sim.result("getFile", file_id=file["file_id"])
    async with sim.http.get(f"{sim.url}/file/bot{TOKEN}/{described['file_path']}") as response:
        assert await response.read() == b"hello"
    assert await sim.refusal("getFile") == "Bad Request: file_id not specified"
    assert await sim.refusal("getFile", file_id="other") == "Bad Request: invalid file_id"
    async with sim.http.get(f"{sim.url}/file/bot{TOKEN}/files/other") as response:
        assert response.status == 404


async def test_broadcast_limits_are_enforced_when_asked(sim: Sim) -> None:
    await sim.says("hi", chat=GROUP)
    for _ in range(3):
        await sim.result("sendMessage", chat_id=GROUP, text="no limits by default")
    await sim.post("telegram/limits", {"enforce": True, "group_per_minute": 2})
    sent = await sim.result("sendMessage", chat_id=GROUP, text="one")
    edit: dict[str, Any] = {"chat_id": GROUP, "message_id": sent["message_id"], "text": "two"}
    status, body = await sim.tg("editMessageText", **edit)
    assert (status, body["parameters"]) == (429, {"retry_after": 1})
    sim.clock.now += 1
    await sim.result("editMessageText", **edit)
    sim.clock.now += 1
    status, body = await sim.tg("sendMessage", chat_id=GROUP, text="three")
    assert (status, body["description"]) == (429, "Too Many Requests: retry after 58")
    sim.clock.now += 58
    await sim.result("sendMessage", chat_id=GROUP, text="three")


async def test_all_chats_of_a_bot_share_a_limit(sim: Sim) -> None:
    await sim.post("telegram/limits", {"enforce": True, "all_per_second": 2})
    for chat in (5001, 5002, 5003):
        await sim.says("hi", chat=chat)
    answers = [(await sim.tg("sendMessage", chat_id=chat, text="x"))[0] for chat in (5001, 5002, 5003)]
    assert answers == [200, 200, 429]


async def test_the_small_methods_answer_true(sim: Sim) -> None:
    await sim.says("hi")
    assert await sim.result("setMyCommands", commands=[{"command": "new", "description": "New chat"}])
    thumb = [{"type": "emoji", "emoji": "👍"}]
    assert await sim.result("setMessageReaction", chat_id=5001, message_id=1, reaction=thumb)
    refusal = await sim.refusal("setMessageReaction", chat_id=5001, message_id=9, reaction=thumb)
    assert refusal == "Bad Request: message to react not found"
    assert (await sim.result("getChat", chat_id=5001))["first_name"] == "Ada"


async def test_without_validation_a_badly_typed_parameter_is_the_callers_mistake(lean: Sim) -> None:
    await lean.says("hi")
    wrong: list[dict[str, Any]] = [
        {"message_thread_id": []},
        {"entities": ["x"]},
        {"reply_parameters": {"message_id": []}},
    ]
    for params in wrong:
        status, _ = await lean.tg("sendMessage", chat_id=5001, text="x", **params)
        assert status == 400


def test_every_refusal_is_one_of_the_platform_and_fits_its_contract() -> None:
    contract = Contract(spec_path("contracts/telegram/bot-api.schema.json"), "#/$defs/")
    own = [
        *(errors.ApiError(*refusal) for refusal in errors.REFUSALS.values()),
        *(errors.ApiError(401, words) for words in (errors.UNAUTHORIZED, errors.MALFORMED)),
        *(errors.conflict(why) for why in (errors.OTHER_READER, errors.WEBHOOK_ACTIVE, errors.WEBHOOK_SET)),
        errors.bad_request(errors.NOT_MODIFIED),
        errors.flood(35),
    ]
    for error in own:
        assert error.description in WORDS
        assert contract.violation("ErrorResponse", error.body()) is None
