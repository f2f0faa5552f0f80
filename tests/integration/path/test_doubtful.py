"""What became of an answer nobody knows: told to the owner of the bot, listed, sent again or dismissed."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from shared.bus import subjects
from tests.support.rig import Bot, Rig
from tests.support.until import until

pytestmark = pytest.mark.asyncio(loop_scope="module")


@contextmanager
def signals(path: Rig, subject: subjects.Subject[Any]) -> Iterator[list[tuple[str, Any]]]:
    """What is said on a subject, with its keys."""
    heard: list[tuple[str, Any]] = []

    async def hear(key: str, signal: Any) -> None:
        heard.append((key, signal))

    subscription = path.owner.bus.subscribe(subject, hear)
    try:
        yield heard
    finally:
        subscription.cancel()


async def lose(path: Rig, bot: Bot, chat: int, text: str) -> dict[str, Any]:
    """The listed part of an answer that was shown, and whose reply was lost."""
    await path.fault(bot, "sendMessage", drop="after")
    await path.says(bot, chat, text)
    await path.answer(bot, chat, f"You said: {text}")
    await path.eventually(
        "SELECT count(*) = 1 FROM deliveries WHERE binding_id = $1 AND state = 'unknown'", bot.binding
    )
    status, shown = await path.api(bot, "GET", f"{bot.binding}/doubtful")
    assert status == 200
    (part,) = shown["parts"]
    return dict(part)


@pytest.mark.case("TG-05")
async def test_an_answer_whose_reply_was_lost_is_told_listed_and_sent_again_once(path: Rig) -> None:
    bot = await path.bot(reply_mode="off")
    with signals(path, subjects.NOTIFY) as told_of:
        part = await lose(path, bot, 7101, "lost and found")
        await until(lambda: (bot.user, subjects.Notify()) in told_of)
    assert (part["text"], part["purpose"], part["chat"]) == ("You said: lost and found", "answer", "7101")
    assert (part["code"], part["can_send"]) == ("outcome_unknown", True)
    assert "may be visible already" in part["why"]
    told = await path.database.fetch(
        "SELECT sort, binding_id, link, body FROM notifications WHERE user_id = $1", bot.user
    )
    ((*facts, body),) = [tuple(row) for row in told]
    assert facts == ["undelivered", bot.binding, ""]
    assert f"/api/chats/connectors/{bot.binding}/doubtful" in body
    again = f"{bot.binding}/doubtful/{part['id']}/send"
    stranger = await path.bot()
    assert (await path.api(stranger, "POST", again))[0] == 404
    with signals(path, subjects.SEND) as heard:
        status, sent = await path.api(bot, "POST", again)
        assert status == 202
        await until(lambda: (bot.binding, subjects.Send(["7101"])) in heard)
    await path.eventually("SELECT state = 'sent' FROM deliveries WHERE id = $1", sent["id"])
    assert await path.visible(bot, 7101) == ["You said: lost and found"] * 2
    status, refusal = await path.api(bot, "POST", again)
    assert (status, refusal["error"]["code"]) == (409, "not_doubtful")
    assert await path.visible(bot, 7101) == ["You said: lost and found"] * 2
    assert (await path.api(bot, "GET", f"{bot.binding}/doubtful"))[1] == {"parts": []}


async def test_what_is_dismissed_goes_from_the_list_and_is_not_sent(path: Rig) -> None:
    bot = await path.bot(reply_mode="off")
    part = await lose(path, bot, 7102, "never mind")
    assert (await path.api(bot, "POST", f"{bot.binding}/doubtful/{part['id']}/dismiss"))[0] == 200
    assert (await path.api(bot, "GET", f"{bot.binding}/doubtful"))[1] == {"parts": []}
    await path.says(bot, 7102, "go on")
    await path.answer(bot, 7102, "You said: go on")
    assert await path.visible(bot, 7102) == ["You said: never mind", "You said: go on"]


async def test_a_working_message_in_doubt_is_only_a_step_and_tells_nobody(path: Rig) -> None:
    bot = await path.bot()
    await path.fault(bot, "sendMessage", drop="after")
    await path.says(bot, 7103, "step")
    await path.answer(bot, 7103, "You said: step")
    await path.eventually("SELECT count(*) = 2 FROM deliveries WHERE binding_id = $1", bot.binding)
    (part,) = (await path.api(bot, "GET", f"{bot.binding}/doubtful"))[1]["parts"]
    assert (part["purpose"], part["can_send"]) == ("working", False)
    status, refusal = await path.api(bot, "POST", f"{bot.binding}/doubtful/{part['id']}/send")
    assert (status, refusal["error"]["code"]) == (409, "step")
    assert not await path.database.fetchval("SELECT count(*) FROM notifications WHERE user_id = $1", bot.user)


async def test_a_notification_that_cannot_be_forwarded_causes_no_other(path: Rig) -> None:
    """A user with two bots hears of the first through the second; when that fails as well, it is only listed."""
    first, second = await path.bot(reply_mode="off"), await path.bot(reply_mode="off")
    await path.touch(second, "user_id = $2, notify_chat = '7105'", first.user)
    body = {"ok": False, "error_code": 403, "description": "Forbidden: bot was blocked by the user"}
    await path.fault(second, "sendMessage", status=403, body=body)
    await lose(path, first, 7104, "tell me elsewhere")
    await path.eventually(
        "SELECT state = 'failed' FROM deliveries WHERE binding_id = $1 AND purpose = 'notification'",
        second.binding,
    )
    told = await path.database.fetch("SELECT binding_id FROM notifications WHERE user_id = $1", first.user)
    assert [row["binding_id"] for row in told] == [first.binding]
