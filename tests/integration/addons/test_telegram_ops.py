"""The Telegram add-on over its real socket against the simulated platform, whose requests are validated."""

import asyncio
import json
from typing import Any

import pytest

from services.addons import telegram
from shared.sdk.errors import (
    Failure,
    OutcomeUnknown,
    PlatformLimited,
    PlatformRefused,
    PlatformUnavailable,
)
from shared.sdk.harness import AddonHarness
from shared.sdk.ops import (
    DeleteArgs,
    DraftArgs,
    EditArgs,
    Me,
    MeArgs,
    PollArgs,
    PollResult,
    SendArgs,
    TypingArgs,
)
from shared.text.split import render
from tests.support.simulation import TOKEN, Sim
from tests.support.spec import spec_path

GROUP = -1001234
ERRORS: list[Any] = json.loads(spec_path("contracts/telegram/errors.json").read_text())["errors"]


async def poll(addon: AddonHarness, offset: str = "", *, wait: float = 0) -> PollResult:
    result: PollResult = await addon.op("poll", PollArgs(offset=offset, wait_seconds=wait), credential=TOKEN)
    return result


async def send(addon: AddonHarness, text: str, *, chat: int = 5001, **more: Any) -> str:
    sent = await addon.op("send", SendArgs(chat=str(chat), text=text, **more), credential=TOKEN)
    return str(sent.id)


async def calls(sim: Sim, method: str) -> list[Any]:
    page = await sim.get("telegram/calls", since=0)
    return [call for call in page["calls"] if call["method"].lower() == method.lower()]


async def params_of(sim: Sim, method: str) -> Any:
    """The parameters of the newest call of `method`."""
    return (await calls(sim, method))[-1]["params"]


async def fault(sim: Sim, method: str, **how: Any) -> None:
    status, answer = await sim.post("telegram/faults", {"method": method} | how)
    assert status == 200, answer


async def test_a_message_is_polled_and_confirmed_by_the_next_offset(sim: Sim, addon: AddonHarness) -> None:
    await sim.says("hello")
    first = await poll(addon)
    assert [message.text for message in first.messages] == ["hello"]
    again = await poll(addon)
    assert (again.messages, again.offset) == (first.messages, first.offset)
    await sim.says("next", chat=GROUP, thread=44)
    second = await poll(addon, first.offset)
    assert [(message.text, message.thread) for message in second.messages] == [("next", "44")]
    assert (await poll(addon, second.offset)).offset == second.offset


async def test_messages_from_before_the_first_poll_are_not_dropped(sim: Sim, addon: AddonHarness) -> None:
    for number in range(6):
        await sim.says(f"m{number}")
    assert [message.text for message in (await poll(addon)).messages] == [f"m{n}" for n in range(6)]


async def test_a_poll_waits_for_a_message(sim: Sim, addon: AddonHarness) -> None:
    waiting = asyncio.gather(poll(addon, wait=20))
    await sim.get("telegram/wait", method="getUpdates", state="received", since=0)
    await sim.says("now")
    assert [message.text for [result] in [await waiting] for message in result.messages] == ["now"]


async def test_unknown_and_strange_updates_are_counted_and_confirmed(sim: Sim, addon: AddonHarness) -> None:
    strange = {"message_id": "seven"}
    updates = [{"update_id": 8, "message": strange}, {"update_id": 9, "brand_new": {}}]
    await fault(sim, "getUpdates", status=200, body={"ok": True, "result": updates})
    result = await poll(addon)
    assert (result.offset, result.skipped, result.messages) == ("10", 2, [])


@pytest.mark.req("MSG-37")
async def test_in_a_group_naming_the_bot_and_answering_it_are_addressed(
    sim: Sim, addon: AddonHarness
) -> None:
    me = await addon.op("me", MeArgs(), credential=TOKEN)
    await sim.says("between us", chat=GROUP)
    await sim.says(f"hey @{me.handle.upper()} help", chat=GROUP)
    answer = await send(addon, "yes?", chat=GROUP)
    await sim.says("this", chat=GROUP, reply_to=int(answer))
    got = [(message.text, message.addressed) for message in (await poll(addon)).messages]
    assert got == [("between us", False), ("hey help", True), ("this", True)]


async def test_the_token_is_asked_for_its_bot_once(sim: Sim, addon: AddonHarness) -> None:
    me = await addon.op("me", MeArgs(), credential=TOKEN)
    assert isinstance(me, Me)
    assert (me.account_id, bool(me.handle)) == ("111", True)
    assert len(await calls(sim, "getMe")) == 1
    await poll(addon)
    assert len(await calls(sim, "getMe")) == 1


@pytest.mark.parametrize(
    "token", ["", "nonsense", "1:a/../x", "111:x?y", "111:x y", "0:abc", "1:" + "x" * 81]
)
async def test_a_text_that_is_no_token_is_refused_without_a_call(
    sim: Sim, addon: AddonHarness, token: str
) -> None:
    with pytest.raises(PlatformRefused) as refused:
        await addon.op("me", MeArgs(), credential=token)
    assert refused.value.reason == "credentials"
    assert (await sim.get("telegram/calls", since=0))["calls"] == []


async def test_a_refused_token_is_told(sim: Sim, addon: AddonHarness) -> None:
    await sim.post("telegram/bots", {"token": TOKEN, "refuse": True})
    for op, args in (("me", MeArgs()), ("poll", PollArgs(wait_seconds=0)), ("send", SendArgs("5001", "x"))):
        with pytest.raises(PlatformRefused) as refused:
            await addon.op(op, args, credential=TOKEN)
        assert refused.value.reason == "credentials"


@pytest.mark.req("TG-41")
async def test_nothing_of_the_token_is_remembered_after_a_call(sim: Sim, addon: AddonHarness) -> None:
    await sim.says("hi")
    await send(addon, "hello")
    with pytest.raises(PlatformRefused) as refused:
        await addon.op("send", SendArgs(chat="5001", text="again"))
    assert refused.value.reason == "credentials"
    assert len(await calls(sim, "sendMessage")) == 1


@pytest.mark.req("TG-40")
async def test_the_data_folder_holds_no_token(sim: Sim, addon: AddonHarness) -> None:
    await sim.says("hi")
    await poll(addon)
    await send(addon, "hello")
    written = [path for path in addon.data.rglob("*") if path.is_file()]
    assert not any(b"secret-of-the-first-bot" in path.read_bytes() for path in written)


@pytest.mark.case("TG-22")
async def test_a_webhook_of_another_program_is_named_and_stays(sim: Sim, addon: AddonHarness) -> None:
    await sim.post("telegram/bots", {"token": TOKEN, "webhook": "https://other.test/hidden-path"})
    with pytest.raises(PlatformRefused) as refused:
        await addon.op("me", MeArgs(), credential=TOKEN)
    assert refused.value.reason == "conflict"
    assert refused.value.detail == {"webhook": "other.test", "code": "webhook_set"}
    assert "hidden-path" not in refused.value.message
    with pytest.raises(PlatformRefused) as refused:
        await poll(addon)
    assert (refused.value.reason, refused.value.detail) == ("conflict", {"webhook": True})
    assert await calls(sim, "deleteWebhook") == []


@pytest.mark.case("TG-22")
async def test_a_webhook_is_removed_only_when_that_was_allowed(sim: Sim, addon: AddonHarness) -> None:
    await sim.says("waiting")
    await sim.post("telegram/bots", {"token": TOKEN, "webhook": "https://other.test/hidden-path"})
    me = await addon.op("me", MeArgs(take_over_webhook=True), credential=TOKEN)
    assert me.account_id == "111"
    assert [message.text for message in (await poll(addon)).messages] == ["waiting"]


async def test_a_second_reader_is_a_conflict_without_a_webhook(sim: Sim, addon: AddonHarness) -> None:
    body = next(entry["body"] for entry in ERRORS if "other getUpdates" in entry["body"]["description"])
    await fault(sim, "getUpdates", status=409, body=body)
    with pytest.raises(PlatformRefused) as refused:
        await poll(addon)
    assert (refused.value.reason, refused.value.detail) == ("conflict", {})


async def test_an_answer_is_sent_with_its_place_and_markup(sim: Sim, addon: AddonHarness) -> None:
    await sim.says("hi", chat=GROUP, thread=44)
    asked = (await poll(addon)).messages[0].id
    await send(addon, r"*bold*\.", chat=GROUP, thread="44", reply_to=asked, markup="MarkdownV2")
    assert await params_of(sim, "sendMessage") == {
        "chat_id": GROUP,
        "message_thread_id": 44,
        "text": r"*bold*\.",
        "parse_mode": "MarkdownV2",
        "link_preview_options": {"is_disabled": True},
        "reply_parameters": {"message_id": int(asked), "allow_sending_without_reply": True},
    }
    assert (await sim.shown(GROUP))[-1]["text"] == "bold."


async def test_an_answer_to_a_message_that_is_gone_is_sent_anyway(sim: Sim, addon: AddonHarness) -> None:
    await sim.says("hi")
    await send(addon, "answer", reply_to="99999")
    assert (await sim.shown())[-1]["text"] == "answer"


async def test_a_message_is_edited_and_deleted(sim: Sim, addon: AddonHarness) -> None:
    await sim.says("hi")
    sent = await send(addon, "Working…")
    edit = EditArgs(chat="5001", id=sent, text=r"done\.", markup="MarkdownV2")
    await addon.op("edit", edit, credential=TOKEN)
    assert (await sim.shown())[-1]["text"] == "done."
    for _ in range(2):  # the second time it is gone already, which is what was wanted
        await addon.op("delete", DeleteArgs(chat="5001", id=sent), credential=TOKEN)
    assert (await sim.shown())[-1]["deleted"]


@pytest.mark.req("ANS-28")
async def test_no_message_shows_a_preview_card(sim: Sim, addon: AddonHarness) -> None:
    await sim.says("hi")
    sent = await send(addon, "https://ex.test")
    await addon.op("edit", EditArgs(chat="5001", id=sent, text="https://ex.test/2"), credential=TOKEN)
    for method in ("sendMessage", "editMessageText"):
        params = await params_of(sim, method)
        assert params["link_preview_options"] == {"is_disabled": True}
        assert "parse_mode" not in params


@pytest.mark.case("TG-08")
async def test_an_edit_that_changes_nothing_is_a_success(sim: Sim, addon: AddonHarness) -> None:
    await sim.says("hi")
    sent = await send(addon, "same")
    await addon.op("edit", EditArgs(chat="5001", id=sent, text="same"), credential=TOKEN)
    assert [call["status"] for call in await calls(sim, "editMessageText")] == [400]
    assert len(await sim.shown()) == 2


async def test_typing_is_shown_in_the_thread(sim: Sim, addon: AddonHarness) -> None:
    await sim.says("hi", chat=GROUP, thread=44)
    await addon.op("typing", TypingArgs(chat=str(GROUP), thread="44"), credential=TOKEN)
    expected = {"action": "typing", "chat_id": GROUP, "message_thread_id": 44}
    assert await params_of(sim, "sendChatAction") == expected


async def test_a_draft_is_shown_in_a_private_chat_and_refused_in_a_group(
    sim: Sim, addon: AddonHarness
) -> None:
    await sim.says("hi")
    await sim.says("hi", chat=GROUP)
    await addon.op("draft", DraftArgs(chat="5001", draft=7, text="so far"), credential=TOKEN)
    page = await sim.get("telegram/messages", chat=5001)
    assert [draft["text"] for draft in page["drafts"]] == ["so far"]
    with pytest.raises(PlatformRefused):
        await addon.op("draft", DraftArgs(chat=str(GROUP), draft=7, text="so far"), credential=TOKEN)


@pytest.mark.case("TG-09")
async def test_a_part_whose_markup_is_refused_can_go_again_as_plain_text(
    sim: Sim, addon: AddonHarness
) -> None:
    await sim.says("hi")
    [part] = render("Ok! Room 2 - off.", "MarkdownV2", 4096, "utf16")
    body = next(entry["body"] for entry in ERRORS if "can't parse" in entry["body"]["description"])
    await fault(sim, "sendMessage", status=400, body=body)
    with pytest.raises(PlatformRefused) as refused:
        await send(addon, part.text, markup=part.markup)
    assert refused.value.reason == "markup"
    await send(addon, part.plain)
    assert (await sim.shown())[-1]["text"] == "Ok! Room 2 - off."


@pytest.mark.case("TG-10")
async def test_the_platform_shows_every_underscore_of_an_address(sim: Sim, addon: AddonHarness) -> None:
    await sim.says("hi")
    text = "See https://ex.test/a_b/c and https://ex.test/d_e/f"
    [part] = render(text, "MarkdownV2", 4096, "utf16")
    await send(addon, part.text, markup=part.markup)
    assert (await sim.shown())[-1]["text"] == text


@pytest.mark.case("TG-12")
async def test_the_platform_takes_every_part_of_a_long_answer(sim: Sim, addon: AddonHarness) -> None:
    await sim.says("hi")
    for part in render("." * 4000, "MarkdownV2", 4096, "utf16"):
        await send(addon, part.text, markup=part.markup)
    shown = "".join(message["text"] for message in await sim.shown() if message["from_bot"])
    assert shown == "." * 4000


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"drop": "before"}, OutcomeUnknown),
        ({"drop": "after"}, OutcomeUnknown),
        ({"status": 502, "body": "<html>Bad Gateway</html>"}, OutcomeUnknown),
        ({"status": 200, "body": "<html>hm</html>"}, OutcomeUnknown),
        ({"hang": True}, OutcomeUnknown),
        (
            {"status": 429, "body": {"ok": False, "error_code": 429}, "headers": {"Retry-After": "35"}},
            PlatformLimited,
        ),
    ],
    ids=str,
)
async def test_a_send_without_a_usable_answer_may_have_been_seen(
    sim: Sim, addon: AddonHarness, how: dict[str, Any], expected: type[Failure]
) -> None:
    await sim.says("hi")
    await fault(sim, "sendMessage", **how)
    with pytest.raises(expected) as failed:
        args = SendArgs(chat="5001", text="once", operation="op-7")
        await addon.op("send", args, credential=TOKEN, deadline=1.0)
    if isinstance(failed.value, OutcomeUnknown):
        assert failed.value.operation == "op-7"
    if isinstance(failed.value, PlatformLimited):
        assert failed.value.seconds == 35


@pytest.mark.parametrize("how", [{"drop": "after"}, {"status": 500, "body": "<html>"}], ids=str)
@pytest.mark.parametrize(
    ("method", "op", "args"),
    [
        ("editMessageText", "edit", EditArgs(chat="5001", id="1", text="x")),
        ("sendChatAction", "typing", TypingArgs(chat="5001")),
        ("sendMessageDraft", "draft", DraftArgs(chat="5001", draft=1, text="x")),
        ("getUpdates", "poll", PollArgs(wait_seconds=0)),
        ("getMe", "me", MeArgs()),
    ],
)
async def test_what_may_be_repeated_is_unavailable(
    sim: Sim, addon: AddonHarness, method: str, op: str, args: Any, how: dict[str, Any]
) -> None:
    await sim.says("hi")
    await fault(sim, method, **how)
    with pytest.raises(PlatformUnavailable):
        await addon.op(op, args, credential=TOKEN)


async def test_a_platform_that_cannot_be_reached_has_seen_nothing(unused_tcp_port: int) -> None:
    settings = {"telegram_api": f"http://127.0.0.1:{unused_tcp_port}"}
    async with AddonHarness(telegram, settings=settings) as addon:
        with pytest.raises(PlatformUnavailable, match="cannot be reached"):
            await send(addon, "x")


OPS_OF = {
    "getUpdates": ("poll", PollArgs(wait_seconds=0)),
    "sendMessage": ("send", SendArgs(chat="5001", text="x")),
    "editMessageText": ("edit", EditArgs(chat="5001", id="1", text="x")),
    "sendChatAction": ("typing", TypingArgs(chat="5001")),
    "sendMessageDraft": ("draft", DraftArgs(chat="5001", draft=1, text="x")),
}
DOCUMENTED = [
    (entry, method)
    for entry in ERRORS
    for method in OPS_OF
    if method in entry["methods"] or "*" in entry["methods"]
]


async def test_every_documented_error_reaches_the_host_as_one_of_the_closed_set(
    sim: Sim, addon: AddonHarness
) -> None:
    """The meaning of each is the business of the unit tests; here it passes the whole way."""
    await sim.says("hi")
    await poll(addon)
    for entry, method in DOCUMENTED:
        op, args = OPS_OF[method]
        await fault(sim, method, status=entry["http_status"], body=entry["body"])
        if method == "editMessageText" and "not modified" in entry["body"]["description"]:
            await addon.op(op, args, credential=TOKEN)
            continue
        with pytest.raises((PlatformRefused, PlatformLimited, PlatformUnavailable, OutcomeUnknown)):
            await addon.op(op, args, credential=TOKEN)


async def test_a_migrated_group_names_its_new_id(sim: Sim, addon: AddonHarness) -> None:
    await sim.says("hi", chat=-4001)
    await sim.post("telegram/chats", {"bot": TOKEN, "chat": -4001, "migrate_to": -1004001})
    with pytest.raises(PlatformRefused) as refused:
        await send(addon, "answer", chat=-4001)
    assert (refused.value.reason, refused.value.detail) == ("migrated", {"migrated_to": "-1004001"})


async def test_a_place_that_is_no_id_is_refused_without_a_call(sim: Sim, addon: AddonHarness) -> None:
    with pytest.raises(PlatformRefused) as refused:
        await addon.op("send", SendArgs(chat="../getMe", text="x"), credential=TOKEN)
    assert refused.value.reason == "gone"
    assert (await sim.get("telegram/calls", since=0))["calls"] == []
