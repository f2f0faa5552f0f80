"""Who is answered and who is not, what a running turn takes in, and what comes twice."""

import pytest

from tests.support.rig import Bot, Rig, rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

GROUP = -4002


async def decided(path: Rig, bot: Bot, count: int) -> list[tuple[str, str]]:
    """State and reason of a bot's messages, once all of them are decided on."""
    await path.eventually(
        "SELECT count(*) = $2 AND bool_and(state <> 'new') FROM inbound WHERE binding_id = $1",
        bot.binding,
        count,
    )
    rows = await path.database.fetch(
        "SELECT state, reason FROM inbound WHERE binding_id = $1 ORDER BY id", bot.binding
    )
    return [(row["state"], row["reason"]) for row in rows]


@pytest.mark.req("ALLOW-05")
async def test_a_listed_group_admits_all_who_address_the_bot_there(path: Rig) -> None:
    bot = await path.bot(accept_any=False, allow=[str(GROUP)])
    for sender in (5001, 5002):
        await path.says(bot, GROUP, f"@{bot.handle} from {sender}", sender=sender)
        await path.answer(bot, GROUP, f"from {sender}")
    await path.says(bot, GROUP, "among ourselves", sender=5001)
    assert (await decided(path, bot, 3))[-1] == ("unaddressed", "not_addressed")


@pytest.mark.req("ALLOW-06")
async def test_a_person_who_is_not_listed_hears_nothing_at_all(path: Rig) -> None:
    bot = await path.bot(accept_any=False, allow=["5001"])
    await path.says(bot, 6001, "let me in")
    assert await decided(path, bot, 1) == [("refused", "not_listed")]
    await path.says(bot, 5001, "still there?")
    await path.answer(bot, 5001, "still there?")
    assert [c for c in await path.calls(bot) if c.get("chat") == 6001] == []


@pytest.mark.req("ALLOW-07")
async def test_the_log_of_senders_counts_who_was_refused(path: Rig) -> None:
    bot = await path.bot(accept_any=False, allow=["5001"])
    for n in range(3):
        await path.says(bot, 6002, f"try {n}")
    await decided(path, bot, 3)
    _, log = await path.api(bot, "GET", f"{bot.binding}/senders")
    assert [(s["id"], s["count"], s["reason"]) for s in log["senders"]] == [("6002", 3, "not_listed")]
    kept = await path.database.fetchval("SELECT count(body) FROM inbound WHERE binding_id = $1", bot.binding)
    assert kept == 0


@pytest.mark.req("MSG-40")
@pytest.mark.req("MSG-41")
async def test_what_comes_during_a_turn_is_read_by_its_next_request_and_answered_by_it(path: Rig) -> None:
    bot = await path.bot(addons=["probe"])
    await path.script(
        "first question",
        {"tool": "probe_read", "arguments": {"value": "x"}},
        {"text": "unused"},
        delay_ms=700,
    )
    await path.script("second question", {"text": "Both answered"})
    await path.says(bot, 5001, "first question")
    await path.eventually("SELECT count(*) = 1 FROM turns WHERE binding_id = $1", bot.binding)
    await path.says(bot, 5001, "second question")
    await path.answer(bot, 5001, "Both answered")
    requests = await path.requests("first question")
    assert len(requests) == 2
    assert "second question" not in str(requests[0]["params"])
    assert "second question" in str(requests[1]["params"])
    assert await path.visible(bot, 5001) == ["Both answered"]
    assert await path.database.fetchval("SELECT count(*) FROM turns WHERE binding_id = $1", bot.binding) == 1


@pytest.mark.req("MSG-41")
async def test_what_comes_after_the_last_request_gets_a_turn_of_its_own_in_order(path: Rig) -> None:
    bot = await path.bot()
    await path.script("slow question", {"text": "Slow answer"}, delay_ms=900)
    await path.says(bot, 5001, "slow question")
    await path.eventually("SELECT count(*) = 1 FROM turns WHERE binding_id = $1", bot.binding)
    await path.says(bot, 5001, "late question")
    await path.answer(bot, 5001, "You said: late question")
    assert await path.visible(bot, 5001) == ["Slow answer", "You said: late question"]


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.parametrize("text", ["/new", "x" * 50])
async def test_a_sender_gets_no_more_sentences_than_messages_in_a_minute(
    database_url: str, text: str
) -> None:
    async with rig(database_url, limits={"sender_per_minute": 4, "message_chars": 40}) as path:
        bot = await path.bot()
        for _ in range(12):
            await path.says(bot, 5001, text)
        outcomes = await decided(path, bot, 12)
        assert [reason == "rate" for _, reason in outcomes] == [False] * 4 + [True] * 8
        await path.says(bot, 5001, "hello")
        assert (await decided(path, bot, 13))[-1] == ("refused", "rate")
        await path.answer(bot, 5001, "more than 4 messages in a minute")
        await path.eventually("SELECT bool_and(state NOT IN ('planned', 'sending')) FROM deliveries")
        assert len(await path.visible(bot, 5001)) == 5


@pytest.mark.case("TG-01")
async def test_a_message_that_is_delivered_twice_is_answered_once(path: Rig) -> None:
    bot = await path.bot()
    await path.says(bot, 5001, "ping", message_id=41)
    await path.answer(bot, 5001, "You said: ping")
    await path.says(bot, 5001, "ping", message_id=41)
    await path.says(bot, 5001, "pong")
    await path.answer(bot, 5001, "You said: pong")
    assert await path.visible(bot, 5001) == ["You said: ping", "You said: pong"]
    assert (
        await path.database.fetchval("SELECT count(*) FROM inbound WHERE binding_id = $1", bot.binding) == 2
    )


@pytest.mark.req("CLU-05")
async def test_the_read_position_is_stored_with_the_binding(path: Rig) -> None:
    bot = await path.bot()
    event = await path.says(bot, 5001, "remember")
    await path.answer(bot, 5001, "You said: remember")
    row = await path.database.fetchrow(
        "SELECT position, term FROM binding_cursor WHERE binding_id = $1", bot.binding
    )
    assert row["position"] == str(event + 1)
    assert row["term"] > 0


async def test_a_group_and_a_private_chat_of_one_person_are_two_conversations(path: Rig) -> None:
    bot = await path.bot()
    await path.says(bot, 5001, "secret word")
    await path.answer(bot, 5001, "secret word")
    await path.says(bot, GROUP, f"@{bot.handle} public word", sender=5001)
    await path.answer(bot, GROUP, "public word")
    (asked,) = await path.requests("public word")
    assert "secret word" not in str(asked["params"])


async def test_messages_of_one_lane_are_answered_in_their_order(path: Rig) -> None:
    bot = await path.bot(conversation="chat")
    for n in range(10):
        await path.says(bot, 5001, f"number {n}.")
    await path.eventually(
        "SELECT count(*) > 0 AND bool_and(last_user_seq <= covered_seq) FROM chats WHERE binding_id = $1 "
        "AND (SELECT count(*) = 10 FROM inbound WHERE binding_id = $1 AND state = 'admitted')",
        bot.binding,
    )
    await path.answer(bot, 5001, "You said: number 9.")
    shown = [int(text.split()[-1].rstrip(".")) for text in await path.visible(bot, 5001)]
    assert shown == sorted(shown)
    assert shown[-1] == 9


@pytest.mark.parametrize("text", ["\\u0000", "a\\u0000", "C:\\u0000\\u0000\\", '"\\u0000"'])
async def test_a_text_that_shows_an_escaped_null_character_is_answered_like_any_other(
    path: Rig, text: str
) -> None:
    """Whoever may write to a bot must not be able to silence it."""
    bot = await path.bot()
    await path.says(bot, 5001, text)
    await path.answer(bot, 5001, f"You said: {text}")


async def test_a_stored_message_that_cannot_be_read_is_recorded_and_passed(path: Rig) -> None:
    bot = await path.bot()
    await path.says(bot, 5001, "before")
    await path.answer(bot, 5001, "before")
    for n, body in enumerate(['{"chat": 5, "sender": []}', "[]", None]):
        await path.database.execute(
            "INSERT INTO inbound (binding_id, account_epoch, platform_chat, message_key, sender_id, body) "
            "VALUES ($1, 1, '5001', $2, '5001', $3::text::jsonb)",
            bot.binding,
            f"m:broken{n}",
            body,
        )
    await path.says(bot, 5001, "after")
    await path.answer(bot, 5001, "You said: after")
    unreadable = ("refused", "unreadable")
    assert await decided(path, bot, 5) == [("admitted", ""), *[unreadable] * 3, ("admitted", "")]
