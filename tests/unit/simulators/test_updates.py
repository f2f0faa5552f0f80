import asyncio
import json
from typing import Any

import aiohttp
import pytest

from shared.lifecycle import Tasks
from tests.support.simulation import TOKEN, Sim

SHORT = aiohttp.ClientTimeout(total=0.2)


async def polling(sim: Sim, **params: Any) -> "asyncio.Task[tuple[int, Any]]":
    """A long poll that the simulator has begun to hold."""
    since = (await sim.get("telegram/calls"))["next"]
    held = Tasks("test").run("poll", sim.tg("getUpdates", **{"timeout": 50, **params}))
    await sim.get("telegram/wait", since=since, method="getUpdates", state="received")
    return held


async def test_a_poll_answers_what_waits_and_confirms_nothing_by_itself(sim: Sim) -> None:
    first = await sim.says("one")
    second = await sim.says("two")
    for _ in range(2):
        updates = await sim.result("getUpdates")
        assert [(update["update_id"], update["message"]["text"]) for update in updates] == [
            (first, "one"),
            (second, "two"),
        ]


async def test_an_offset_confirms_all_lower_updates(sim: Sim) -> None:
    first = await sim.says("one")
    second = await sim.says("two")
    assert [update["update_id"] for update in await sim.result("getUpdates", offset=first + 1)] == [second]
    assert len(await sim.result("getUpdates")) == 1
    assert await sim.result("getUpdates", offset=second + 1) == []


async def test_a_negative_offset_keeps_the_last_and_forgets_the_rest(sim: Sim) -> None:
    for text in ("one", "two", "three"):
        await sim.says(text)
    last = await sim.result("getUpdates", offset=-2)
    assert [update["message"]["text"] for update in last] == ["two", "three"]
    assert await sim.result("getUpdates") == last


async def test_the_limit_bounds_an_answer(sim: Sim) -> None:
    for text in ("one", "two", "three"):
        await sim.says(text)
    assert len(await sim.result("getUpdates", limit=2)) == 2


async def test_a_long_poll_ends_with_the_first_update(sim: Sim) -> None:
    held = await polling(sim)
    await sim.says("hi")
    status, body = await held
    assert status == 200
    assert [update["message"]["text"] for update in body["result"]] == ["hi"]


async def test_a_poll_with_a_timeout_ends_empty(lean: Sim) -> None:
    assert await lean.result("getUpdates", timeout=0.05) == []


async def test_a_second_reader_ends_the_first_with_a_conflict(sim: Sim) -> None:
    held = await polling(sim)
    assert await sim.result("getUpdates") == []
    status, body = await held
    assert status == body["error_code"] == 409
    assert body["description"].startswith("Conflict: terminated by other getUpdates request")


async def test_a_webhook_ends_the_poll_and_refuses_the_next(sim: Sim) -> None:
    held = await polling(sim)
    assert (await sim.tg("setWebhook", url="https://hooks.example.test/x"))[1][
        "description"
    ] == "Webhook was set"
    assert (await held)[1]["description"] == "Conflict: terminated by setWebhook request"
    status, body = await sim.tg("getUpdates")
    assert status == 409
    assert "while webhook is active" in body["description"]
    assert (await sim.result("getWebhookInfo"))["url"] == "https://hooks.example.test/x"


async def test_a_deleted_webhook_allows_polling_again(sim: Sim) -> None:
    await sim.says("kept")
    await sim.post("telegram/bots", {"token": TOKEN, "webhook": "https://hooks.example.test/x"})
    assert (await sim.result("getWebhookInfo"))["pending_update_count"] == 1
    assert (await sim.tg("deleteWebhook"))[1] == {
        "ok": True,
        "result": True,
        "description": "Webhook was deleted",
    }
    assert (await sim.tg("deleteWebhook"))[1]["description"] == "Webhook is already deleted"
    assert len(await sim.result("getUpdates")) == 1


async def test_pending_updates_are_dropped_when_asked(sim: Sim) -> None:
    await sim.says("gone")
    await sim.result("deleteWebhook", drop_pending_updates=True)
    assert await sim.result("getUpdates") == []


async def test_a_reader_that_goes_away_leaves_no_poll_behind(sim: Sim) -> None:
    since = (await sim.get("telegram/calls"))["next"]
    with pytest.raises(TimeoutError):
        async with sim.http.get(f"{sim.url}/bot{TOKEN}/getUpdates?timeout=50", timeout=SHORT):
            pass
    page = await sim.get("telegram/wait", since=since, method="getUpdates")
    assert [call["status"] for call in page["calls"]] == [0]
    await sim.says("hi")
    assert len(await sim.result("getUpdates")) == 1


async def test_allowed_kinds_are_remembered_and_do_not_touch_what_was_queued(sim: Sim) -> None:
    query = {"id": "1", "from": {"id": 5001, "is_bot": False, "first_name": "Ada"}, "chat_instance": "x"}
    await sim.says("before")
    await sim.result("getUpdates", allowed_updates=["callback_query"])
    await sim.says("unwanted")
    await sim.post("telegram/events", {"bot": TOKEN, "update": {"callback_query": query}})
    kinds = [sorted(update.keys() - {"update_id"}) for update in await sim.result("getUpdates")]
    assert kinds == [["message"], ["callback_query"]]
    await sim.result("getUpdates", allowed_updates=[])
    await sim.says("wanted again")
    assert len(await sim.result("getUpdates")) == 3


async def test_reactions_are_not_in_the_default_set(sim: Sim) -> None:
    reaction = {
        "chat": {"id": 5001, "type": "private"},
        "message_id": 1,
        "date": 1,
        "old_reaction": [],
        "new_reaction": [],
    }
    body = {"bot": TOKEN, "update": {"message_reaction": reaction}}
    await sim.post("telegram/events", body)
    assert await sim.result("getUpdates") == []
    await sim.result("getUpdates", allowed_updates=["message_reaction"])
    await sim.post("telegram/events", body)
    assert len(await sim.result("getUpdates")) == 1


async def test_updates_are_kept_for_a_day(sim: Sim) -> None:
    await sim.says("old")
    sim.clock.now += 24 * 3600 + 1
    await sim.says("new")
    assert [update["message"]["text"] for update in await sim.result("getUpdates")] == ["new"]


async def test_each_bot_has_its_own_queue_and_a_new_token_is_the_same_bot(sim: Sim) -> None:
    await sim.says("hi")
    assert await sim.result("getUpdates", "222:other-bot-of-the-test") == []
    assert len(await sim.result("getUpdates", "111:replaced-token-of-the-bot")) == 1


async def test_a_message_is_queued_as_the_platform_would_write_it(sim: Sim) -> None:
    await sim.says("/start@sim111_bot see @sim111_bot", chat=-1001, title="Club", thread=7)
    message = (await sim.result("getUpdates"))[0]["message"]
    assert message["chat"] == {"id": -1001, "type": "supergroup", "title": "Club", "is_forum": True}
    assert message["from"] == {"id": 5001, "is_bot": False, "first_name": "Ada"}
    assert (message["message_id"], message["message_thread_id"]) == (1, 7)
    assert [(entity["type"], entity["offset"], entity["length"]) for entity in message["entities"]] == [
        ("bot_command", 0, 17),
        ("mention", 22, 11),
    ]


async def test_a_reply_carries_the_message_it_answers(sim: Sim) -> None:
    await sim.says("first")
    sent = await sim.result("sendMessage", chat_id=5001, text="second")
    await sim.says("third", reply_to=sent["message_id"])
    replied = (await sim.result("getUpdates", offset=-1))[0]["message"]["reply_to_message"]
    assert (replied["text"], replied["from"]["is_bot"]) == ("second", True)


async def test_a_message_can_be_delivered_twice_under_its_id(sim: Sim) -> None:
    await sim.says("ping", message_id=41)
    await sim.says("ping", message_id=41)
    updates = await sim.result("getUpdates")
    assert [update["message"]["message_id"] for update in updates] == [41, 41]
    assert len(await sim.shown()) == 1


async def test_updates_arrive_in_every_request_form(sim: Sim) -> None:
    first = await sim.says("one")
    await sim.says("two")
    url = f"{sim.url}/bot{TOKEN}/GETUPDATES"
    fields = {"offset": str(first + 1), "allowed_updates": json.dumps(["message"])}
    async with sim.http.get(url, params=fields) as by_query:
        assert len((await by_query.json())["result"]) == 1
    async with sim.http.post(url, data=fields) as by_form:
        assert len((await by_form.json())["result"]) == 1
    parts = aiohttp.FormData(fields, default_to_multipart=True)
    async with sim.http.post(url, data=parts) as by_parts:
        assert len((await by_parts.json())["result"]) == 1
