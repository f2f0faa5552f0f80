"""What becomes of planned parts when the add-on, the platform or its answer is lost in the middle."""

import os
import signal
from typing import Any

import pytest

from tests.support.rig import Bot, Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def received(path: Rig, chat: int, method: str) -> None:
    """Wait until the platform has a call for a chat, answered or not."""
    page = await path.sim.get(
        "telegram/wait", since=0, method=method, chat=chat, state="received", timeout=10
    )
    assert page["found"]


async def states(path: Rig, bot: Bot) -> list[tuple[str, str, str]]:
    rows = await path.database.fetch(
        "SELECT purpose, action, state FROM deliveries WHERE binding_id = $1 ORDER BY seq", bot.binding
    )
    return [tuple(row) for row in rows]


@pytest.mark.case("TG-05")
async def test_a_send_whose_answer_is_lost_is_unknown_shown_and_never_repeated(path: Rig) -> None:
    bot = await path.bot(reply_mode="off")
    await path.fault(bot, "sendMessage", drop="after")
    await path.says(bot, 7001, "lost answer")
    await path.answer(bot, 7001, "You said: lost answer")
    await path.eventually("SELECT state = 'unknown' FROM deliveries WHERE binding_id = $1", bot.binding)
    await path.says(bot, 7001, "the next one")
    await path.answer(bot, 7001, "You said: the next one")
    assert await path.visible(bot, 7001) == ["You said: lost answer", "You said: the next one"]
    status, shown = await path.api(bot, "GET", f"{bot.binding}/doubtful")
    assert status == 200
    (part,) = shown["parts"]
    assert (part["chat"], part["state"], part["purpose"]) == ("7001", "unknown", "answer")
    assert part["code"] == "outcome_unknown"
    assert part["why"]
    stranger = await path.bot()
    assert (await path.api(stranger, "GET", f"{bot.binding}/doubtful"))[0] == 404


@pytest.mark.case("TG-05")
async def test_an_addon_that_is_killed_in_a_send_leaves_it_unknown(path: Rig) -> None:
    bot = await path.bot(reply_mode="off")
    await path.fault(bot, "sendMessage", delay_ms=800)
    await path.says(bot, 7002, "kill in a send")
    await path.eventually("SELECT state = 'sending' FROM deliveries WHERE binding_id = $1", bot.binding)
    await received(path, 7002, "sendMessage")
    (pid,) = path.addon_pids("telegram")
    os.kill(pid, signal.SIGKILL)
    await path.eventually("SELECT state = 'unknown' FROM deliveries WHERE binding_id = $1", bot.binding)
    await path.answer(bot, 7002, "You said: kill in a send")
    await path.says(bot, 7002, "after the restart")
    await path.answer(bot, 7002, "You said: after the restart", within=15)
    assert await path.visible(bot, 7002) == ["You said: kill in a send", "You said: after the restart"]
    assert path.addon_pids("telegram") != [pid]


async def test_an_addon_that_is_killed_in_an_edit_repeats_it(path: Rig) -> None:
    bot = await path.bot()
    await path.fault(bot, "editMessageText", delay_ms=800)
    await path.says(bot, 7003, "kill in an edit")
    await received(path, 7003, "editMessageText")
    await path.eventually(
        "SELECT state = 'sending' FROM deliveries WHERE binding_id = $1 AND action = 'edit'", bot.binding
    )
    (pid,) = path.addon_pids("telegram")
    os.kill(pid, signal.SIGKILL)
    await path.eventually(
        "SELECT count(*) = 2 AND bool_and(state = 'sent') FROM deliveries WHERE binding_id = $1",
        bot.binding,
        within=15,
    )
    assert await path.visible(bot, 7003) == ["You said: kill in an edit"]
    assert len(await path.calls(bot, "editMessageText")) == 2


@pytest.mark.case("TG-05")
async def test_a_final_edit_whose_answer_is_lost_is_repeated_with_the_same_result(path: Rig) -> None:
    bot = await path.bot()
    await path.fault(bot, "editMessageText", drop="after")
    await path.says(bot, 7004, "edit again")
    await path.eventually(
        "SELECT count(*) = 2 AND bool_and(state = 'sent') FROM deliveries WHERE binding_id = $1", bot.binding
    )
    assert await path.visible(bot, 7004) == ["You said: edit again"]
    assert len(await path.calls(bot, "editMessageText")) == 2


async def test_a_working_message_of_unknown_outcome_is_not_edited_and_the_answer_is_sent(path: Rig) -> None:
    bot = await path.bot()
    await path.fault(bot, "sendMessage", drop="after")
    await path.says(bot, 7005, "without its place")
    await path.answer(bot, 7005, "You said: without its place")
    await path.eventually(
        "SELECT count(*) = 2 AND bool_and(state IN ('sent', 'unknown')) FROM deliveries WHERE binding_id = $1",
        bot.binding,
    )
    assert await states(path, bot) == [("working", "send", "unknown"), ("answer", "send", "sent")]


async def test_a_chat_that_asks_to_wait_holds_up_no_other_chat(path: Rig) -> None:
    bot = await path.bot(reply_mode="off")
    await path.fault(bot, "sendMessage", chat=7006, **limited(2))
    await path.says(bot, 7006, "hold on")
    await path.eventually(
        "SELECT not_before IS NOT NULL FROM deliveries WHERE binding_id = $1 AND platform_chat = '7006'",
        bot.binding,
    )
    await path.says(bot, 7007, "right away")
    await path.answer(bot, 7007, "You said: right away")
    assert await path.visible(bot, 7006) == []
    await path.answer(bot, 7006, "You said: hold on")
    refused, again = [call for call in await path.calls(bot, "sendMessage") if call["chat"] == 7006]
    assert again["at"] - refused["at"] >= 2


async def test_with_the_limits_of_the_platform_enforced_everything_arrives_in_order(path: Rig) -> None:
    bot = await path.bot(reply_mode="off")
    await path.sim.post("telegram/limits", {"enforce": True, "chat_per_second": 2})
    try:
        await path.script("in five parts", {"text": "\n\n".join(f"part{n} " + "x" * 3900 for n in range(5))})
        await path.says(bot, 7008, "in five parts")
        await path.answer(bot, 7008, "part4", within=20)
        shown = await path.visible(bot, 7008)
        assert [text[:5] for text in shown] == [f"part{n}" for n in range(5)]
    finally:
        await path.sim.post("telegram/limits", {"enforce": False})


async def test_a_refusal_for_good_is_recorded_and_passed(path: Rig) -> None:
    bot = await path.bot(reply_mode="off")
    body = {"ok": False, "error_code": 403, "description": "Forbidden: bot was blocked by the user"}
    await path.fault(bot, "sendMessage", status=403, body=body)
    await path.says(bot, 7009, "blocked")
    await path.eventually("SELECT state = 'failed' FROM deliveries WHERE binding_id = $1", bot.binding)
    await path.says(bot, 7009, "unblocked")
    await path.answer(bot, 7009, "You said: unblocked")
    assert len(await path.calls(bot, "sendMessage")) == 2


async def test_an_outcome_that_cannot_be_stored_holds_up_neither_its_lane_nor_others(path: Rig) -> None:
    bot = await path.bot(reply_mode="off")
    await path.database.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'too strange'; END $$"
    )
    await path.database.execute(
        "CREATE TRIGGER refuse BEFORE UPDATE ON deliveries FOR EACH ROW "
        "WHEN (NEW.platform_chat = '7010' AND NEW.platform_id <> '') EXECUTE FUNCTION refuse()"
    )
    try:
        for chat in (7010, 7011):
            await path.says(bot, chat, "first")
        for chat in (7010, 7011):
            await path.says(bot, chat, "second")
            await path.answer(bot, chat, "You said: second")
        await path.eventually(
            "SELECT bool_and(state = 'sent') FROM deliveries WHERE binding_id = $1", bot.binding
        )
    finally:
        await path.database.execute("DROP FUNCTION refuse CASCADE")
    facts = await path.database.fetch(
        "SELECT error ->> 'code' AS code FROM deliveries WHERE binding_id = $1 AND platform_chat = '7010'",
        bot.binding,
    )
    assert {row["code"] for row in facts} == {"bug"}


def limited(seconds: int) -> dict[str, Any]:
    body = {
        "ok": False,
        "error_code": 429,
        "description": f"Too Many Requests: retry after {seconds}",
        "parameters": {"retry_after": seconds},
    }
    return {"status": 429, "body": body}
