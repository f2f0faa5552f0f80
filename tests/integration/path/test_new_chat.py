"""`/new`: the next message of a place starts a new chat; a running turn keeps its own."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from services.addons.probe.control import InjectArgs, NoArgs, SentResult
from shared.sdk.ops import Done, Inbound, Person
from tests.support.rig import Bot, Rig
from tests.support.until import until_answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

GROUP, FORUM = -4101, -4102
DONE, SHARED = "your next message starts a new chat", "the next message here starts a new chat"


async def chats(path: Rig, bot: Bot) -> list[str]:
    """The chats of a bot, in the order in which they were made."""
    rows = await path.database.fetch(
        "SELECT id FROM chats WHERE binding_id = $1 ORDER BY created_at, id", bot.binding
    )
    return [row["id"] for row in rows]


async def texts(path: Rig, chat_id: str) -> list[str]:
    rows = await path.database.fetch("SELECT content FROM messages WHERE chat_id = $1 ORDER BY seq", chat_id)
    return [row["content"] for row in rows]


async def consumed(path: Rig, bot: Bot, count: int = 1) -> None:
    """So many commands are decided on, and nothing of them is kept."""
    await path.eventually(
        "SELECT count(*) = $2 AND count(body) = 0 FROM inbound WHERE binding_id = $1 AND state = 'consumed' "
        "AND reason = 'new_chat'",
        bot.binding,
        count,
    )


async def pair(path: Rig, bot: Bot, sender: int, *, valid: str = "1 day") -> None:
    await path.database.execute(
        "INSERT INTO pairings (binding_id, sender_id, expires_at) VALUES ($1, $2, now() + $3::text::interval)",
        bot.binding,
        str(sender),
        valid,
    )


async def asks(path: Rig, bot: Bot, chat: int, text: str, **more: Any) -> None:
    """Say something that the bot is meant to answer with its own words, and read them."""
    said = text if chat > 0 else f"@{bot.handle} {text}"
    await path.says(bot, chat, said, **more)
    await path.answer(bot, chat, f"You said: {text}")
    await path.eventually(
        "SELECT bool_and(turn_id IS NULL AND last_user_seq <= covered_seq) FROM chats WHERE binding_id = $1",
        bot.binding,
    )


@pytest.mark.req("NEW-01")
@pytest.mark.req("NEW-03")
@pytest.mark.req("NEW-04")
async def test_the_command_is_consumed_before_any_turn_and_the_log_has_only_ids(path: Rig) -> None:
    bot = await path.bot()
    await asks(path, bot, 5101, "first words")
    (old,) = await chats(path, bot)
    before = len(await path.requests(""))
    with capture_logs() as logged:
        await path.says(bot, 5101, "/NeW")
        await path.answer(bot, 5101, DONE)
    assert len(await path.requests("")) == before
    assert await texts(path, old) == ["first words", "You said: first words"]
    await consumed(path, bot)
    (entry,) = [line for line in logged if line["event"] == "new_chat_started"]
    assert (entry["binding"], entry["left"]) == (bot.binding, old)
    assert set(entry) == {"event", "log_level", "binding", "left"}
    assert "NeW" not in str(logged)
    await path.eventually(
        "SELECT bool_and(state = 'sent') FROM deliveries WHERE binding_id = $1 AND purpose = 'notice'",
        bot.binding,
    )


@pytest.mark.req("NEW-05")
async def test_a_sentence_that_begins_with_the_command_goes_to_the_agent(path: Rig) -> None:
    bot = await path.bot()
    await asks(path, bot, 5102, "/new please summarise")
    (chat,) = await chats(path, bot)
    assert (await texts(path, chat))[0] == "/new please summarise"


@pytest.mark.req("NEW-06")
@pytest.mark.req("NEW-07")
@pytest.mark.parametrize("command", ["/NEW", "!New", "  /new \n", "\n!new  "])
async def test_case_and_white_space_do_not_matter(path: Rig, command: str) -> None:
    bot = await path.bot()
    await path.says(bot, 5103, command)
    await path.answer(bot, 5103, DONE)
    await consumed(path, bot)


@pytest.mark.req("NEW-08")
async def test_the_bots_own_name_may_stand_behind_the_command_and_no_other(path: Rig) -> None:
    bot = await path.bot()
    await path.says(bot, 5104, f"/new@{bot.handle.upper()}")
    await path.answer(bot, 5104, DONE)
    await consumed(path, bot)
    await asks(path, bot, 5104, "/new@another_bot")
    await path.says(bot, GROUP, f"/new@{bot.handle}", sender=5104)
    await path.answer(bot, GROUP, DONE)
    await consumed(path, bot, 2)


@pytest.mark.req("NEW-09")
async def test_with_a_file_it_is_an_ordinary_message(path: Rig) -> None:
    bot = await path.bot()
    photo = {"file_id": "f1", "file_unique_id": "u1", "width": 10, "height": 10, "file_size": 100}
    chat = {"id": 5105, "type": "private", "first_name": "Ada"}
    sender = {"id": 5105, "is_bot": False, "first_name": "Ada"}
    message = {"message_id": 7, "date": 1_800_000_000, "chat": chat, "from": sender}
    update = {"message": {**message, "photo": [photo], "caption": "/new"}}
    status, answer = await path.sim.post("telegram/events", {"bot": bot.token, "update": update})
    assert status == 200, answer
    await path.answer(bot, 5105, "You said: /new")


@pytest.mark.req("NEW-10")
async def test_a_stranger_hears_nothing_and_stands_in_the_log(path: Rig) -> None:
    bot = await path.bot(accept_any=False, allow=["5106"])
    await asks(path, bot, 5106, "mine")
    await path.says(bot, 6106, "/new")
    await path.eventually(
        "SELECT count(*) = 1 FROM inbound WHERE binding_id = $1 AND state = 'refused'", bot.binding
    )
    _, log = await path.api(bot, "GET", f"{bot.binding}/senders")
    assert ("6106", "not_listed") in [(s["id"], s.get("reason")) for s in log["senders"]]
    await asks(path, bot, 5106, "still mine")
    assert [call for call in await path.calls(bot) if call.get("chat") == 6106] == []
    assert len(await chats(path, bot)) == 1


@pytest.mark.req("NEW-11")
@pytest.mark.req("NEW-12", page=False)
@pytest.mark.req("NEW-23")
@pytest.mark.parametrize("conversation", ["sender", "window"])
async def test_the_next_message_of_the_person_starts_a_new_chat_and_the_old_one_stays(
    path: Rig, conversation: str
) -> None:
    bot = await path.bot(conversation=conversation)
    await asks(path, bot, 5107, "long ago")
    await asks(path, bot, 5108, "somebody else")
    before, other = await chats(path, bot)
    await path.says(bot, 5107, "/new")
    await path.answer(bot, 5107, DONE)
    fresh = f"a fresh start by {conversation}"
    await asks(path, bot, 5107, fresh)
    *_, after = await chats(path, bot)
    assert after not in {before, other}
    (asked,) = await path.requests(fresh)
    assert "long ago" not in str(asked["params"])
    _, listed = await path.asks(bot, "GET", "chats")
    assert {chat["id"] for chat in listed["chats"]} == {before, other, after}
    _, kept = await path.asks(bot, "GET", f"chats/{before}")
    assert [m["content"] for m in kept["messages"]] == ["long ago", "You said: long ago"]
    await asks(path, bot, 5108, "somebody else again")
    assert await chats(path, bot) == [before, other, after]


@pytest.mark.req("NEW-13")
@pytest.mark.req("NEW-14")
@pytest.mark.req("NEW-15")
async def test_a_shared_chat_is_left_for_everyone_at_the_word_of_a_paired_person_only(path: Rig) -> None:
    bot = await path.bot(conversation="chat", accept_any=False, allow=["5109", "5110"])
    await asks(path, bot, GROUP, "old times", sender=5109)
    (old,) = await chats(path, bot)
    await pair(path, bot, 5110, valid="-1 second")
    for sender in (5109, 5110):
        await path.says(bot, GROUP, f"@{bot.handle} /new", sender=sender)
        await path.answer(bot, GROUP, "Only somebody whom my owner has paired")
    await consumed(path, bot, 2)
    await asks(path, bot, GROUP, "old times go on", sender=5109)
    assert await chats(path, bot) == [old]
    await pair(path, bot, 5109)
    await path.says(bot, GROUP, f"@{bot.handle} !new", sender=5109)
    await path.answer(bot, GROUP, SHARED)
    await asks(path, bot, GROUP, "new times", sender=5110)
    await path.says(bot, GROUP, f"@{bot.handle} for both of us", sender=5109)
    await path.answer(bot, GROUP, "You said: Person 5109: for both of us")
    _, new = await chats(path, bot)
    said = [text for text in await texts(path, new) if "You said" not in text]
    assert said == ["new times", "for both of us"]


@pytest.mark.req("NEW-16")
async def test_where_every_message_starts_a_chat_the_bot_says_so(path: Rig) -> None:
    bot = await path.bot(conversation="thread")
    await path.says(bot, 5111, "/new")
    await path.answer(bot, 5111, "every message here starts a new chat already")
    await consumed(path, bot)


async def test_in_a_topic_of_a_group_it_is_for_paired_people_and_for_that_topic_alone(path: Rig) -> None:
    bot = await path.bot()
    topic = {"sender": 5112, "thread": 31}
    await asks(path, bot, FORUM, "in the topic", **topic)
    await asks(path, bot, FORUM, "outside of it", sender=5112)
    inside, outside = await chats(path, bot)
    await path.says(bot, FORUM, f"/new@{bot.handle}", **topic)
    await path.answer(bot, FORUM, "Only somebody whom my owner has paired")
    await pair(path, bot, 5112)
    await path.says(bot, FORUM, f"/new@{bot.handle}", **topic)
    await path.answer(bot, FORUM, SHARED)
    await asks(path, bot, FORUM, "outside again", sender=5112)
    assert await chats(path, bot) == [inside, outside]
    await asks(path, bot, FORUM, "inside again", **topic)
    *_, new = await chats(path, bot)
    assert (await texts(path, new))[0] == "inside again"


@pytest.mark.req("NEW-19")
async def test_in_private_anybody_who_is_let_in_may_send_it(path: Rig) -> None:
    bot = await path.bot(conversation="chat")
    await asks(path, bot, 5113, "just me")
    await path.says(bot, 5113, "/new")
    await path.answer(bot, 5113, DONE)
    await asks(path, bot, 5113, "me again")
    assert len(await chats(path, bot)) == 2


@pytest.mark.req("NEW-21")
@pytest.mark.req("NEW-22")
async def test_while_it_answers_it_asks_for_the_command_again_and_the_answer_keeps_its_chat(
    path: Rig,
) -> None:
    bot = await path.bot()
    await path.script("take long", {"text": "Here it is"}, delay_ms=1500)
    await path.says(bot, 5114, "take long")
    await path.eventually("SELECT count(*) = 1 FROM turns WHERE binding_id = $1", bot.binding)
    await path.says(bot, 5114, "!new")
    await path.answer(bot, 5114, "Please send !new again when I am done")
    await path.answer(bot, 5114, "Here it is")
    (old,) = await chats(path, bot)
    assert await texts(path, old) == ["take long", "Here it is"]
    await asks(path, bot, 5114, "go on then")
    assert await chats(path, bot) == [old]
    await path.says(bot, 5114, "/new")
    await path.answer(bot, 5114, DONE)
    await asks(path, bot, 5114, "at last")
    assert len(await chats(path, bot)) == 2


async def test_commands_and_messages_that_wait_together_are_taken_in_their_order(path: Rig) -> None:
    """One batch: what stands before the command is answered in the old chat, so the command has to be repeated."""
    bot = await path.bot()
    await asks(path, bot, 5115, "before all")
    waiting = ["/new", "first of the new", "/new", "second of the new"]
    async with path.database.transaction() as connection:
        await connection.fetch("SELECT FROM lanes WHERE binding_id = $1 FOR UPDATE", bot.binding)
        for text in waiting:
            await path.says(bot, 5115, text)
        await path.eventually(
            "SELECT count(*) = 4 FROM inbound WHERE binding_id = $1 AND state = 'new'", bot.binding
        )
    await path.answer(bot, 5115, "second of the new")
    await consumed(path, bot, 2)
    _, new = await chats(path, bot)
    said = [text for text in await texts(path, new) if not text.startswith("You said")]
    assert said == ["first of the new", "second of the new"]
    notices = [text for text in await path.visible(bot, 5115) if "You said" not in text]
    assert [DONE in notices[0], "Please send /new again" in notices[1]] == [True, True]


@pytest.mark.req("NEW-26")
async def test_it_needs_nothing_from_the_addon(path: Rig) -> None:
    bot = await path.bot(kind="probe", reply_mode="off")
    addon = path.addon("probe")

    async def says(n: int, text: str) -> None:
        message = Inbound("c1", Person("5116", "Ada"), id=str(n), text=text, direct=True)
        await addon.op("probe.inject", InjectArgs(message), binding=bot.binding, result=Done)

    async def shows(text: str) -> None:
        async def seen() -> bool:
            sent: SentResult = await addon.op(
                "probe.sent", NoArgs(), binding=bot.binding, credential=bot.token, result=SentResult
            )
            return any(text in message.text for message in sent.messages)

        await until_answer(seen)

    await says(1, "hello probe")
    await shows("You said: hello probe")
    await says(2, "/new")
    await shows(DONE)
    await says(3, "hello again")
    await shows("You said: hello again")
    assert len(await chats(path, bot)) == 2


async def test_the_next_message_starts_the_new_chat_on_another_leader_too(path: Rig) -> None:
    bot = await path.bot()
    await asks(path, bot, 5117, "to the first leader")
    first = await path.leader()
    await path.says(bot, 5117, "/new")
    await path.answer(bot, 5117, DONE)
    await path.add_frontend()
    await path.stop_frontend(first)
    assert (await path.leader()).id != first.id
    await asks(path, bot, 5117, "to the second leader")
    assert len(await chats(path, bot)) == 2
