"""Who polls, who is asked, and what travels between a frontend and the owner."""

from typing import Any

import msgspec
import pytest

from services.addons.probe.control import InjectArgs, NoArgs, SentResult
from shared.carrier import operations as ops
from shared.sdk.ops import Done, Inbound, Person
from tests.support.rig import Bot, Rig
from tests.support.until import until_answer

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def probe(path: Rig, bot: Bot, name: str, args: msgspec.Struct, result: Any = Done) -> Any:
    return await path.addon("probe").op(f"probe.{name}", args, binding=bot.binding, result=result)


async def sent(path: Rig, bot: Bot) -> list[str]:
    answer = await probe(path, bot, "sent", NoArgs(), SentResult)
    return [message.text for message in answer.messages if not message.deleted]


@pytest.mark.req("CLU-03")
async def test_a_kind_that_declares_pull_is_polled_and_answered_through_its_addon(path: Rig) -> None:
    bot = await path.bot(kind="probe")
    message = Inbound(chat="room", sender=Person("9", "Ada"), id="1", text="over the probe", direct=True)
    await probe(path, bot, "inject", InjectArgs(message))

    async def answered() -> bool:
        return await sent(path, bot) == ["You said: over the probe"]

    await until_answer(answered)
    polls = [
        request
        for name, request in path.heard
        if name == "connector.poll" and bot.binding.encode() in request
    ]
    assert polls
    assert await path.database.fetchval(
        "SELECT position FROM binding_cursor WHERE binding_id = $1", bot.binding
    )


async def test_a_pushed_message_is_stored_before_it_is_acknowledged_and_answered(path: Rig) -> None:
    bot = await path.bot(kind="probe")
    await path.touch(bot, "kind = 'probe-push'")
    message = Inbound(chat="room", sender=Person("9", "Ada"), id="1", text="pushed", direct=True)
    await probe(path, bot, "inject", InjectArgs(message, push=True))
    assert (
        await path.database.fetchval("SELECT count(*) FROM inbound WHERE binding_id = $1", bot.binding) == 1
    )

    async def answered() -> bool:
        return await sent(path, bot) == ["You said: pushed"]

    await until_answer(answered)


@pytest.mark.req("CLU-30")
async def test_what_a_frontend_asks_names_the_binding_and_holds_no_token(path: Rig) -> None:
    bot = await path.bot()
    await path.says(bot, 5001, "what travels")
    await path.answer(bot, 5001, "You said: what travels")
    ours = [request for _, request in path.heard if bot.binding.encode() in request]
    assert {name for name, request in path.heard if request in ours} >= {"connector.poll", "connector.typing"}
    assert not any(b"marked-secret" in request for _, request in path.heard)


@pytest.mark.req("CLU-32")
async def test_a_binding_from_before_addons_had_names_is_still_served(path: Rig) -> None:
    bot = await path.bot()
    await path.touch(bot, "addon = ''")
    await path.says(bot, 5001, "without a name")
    await path.answer(bot, 5001, "You said: without a name")


@pytest.mark.req("OFF-08")
async def test_an_addon_that_is_switched_off_for_a_while_leaves_the_binding_on(path: Rig) -> None:
    bot = await path.bot()
    await path.carrier.call(ops.DISABLE, ops.AddonId("telegram"), actor=bot.user, operation="off")
    try:
        await path.says(bot, 5001, "while it is off")
        assert not path.addon_pids("telegram")
    finally:
        await path.carrier.call(ops.ENABLE, ops.AddonId("telegram"), actor=bot.user, operation="on")
    await path.answer(bot, 5001, "You said: while it is off", within=15)
    assert await path.database.fetchval("SELECT enabled FROM bindings WHERE id = $1", bot.binding)


async def test_a_turn_that_was_claimed_without_being_heard_of_is_run_by_its_frontend(path: Rig) -> None:
    bot = await path.bot(reply_mode="off")
    await path.says(bot, 5001, "first")
    await path.answer(bot, 5001, "You said: first")
    holder = path.replicas[0].id
    await path.database.execute(
        "WITH c AS (UPDATE chats SET turn_id = nextval('turn_ids'), epoch = epoch + 1, next_seq = next_seq + 1, "
        "last_user_seq = next_seq, waiting_since = now() WHERE binding_id = $1 RETURNING *), "
        "m AS (INSERT INTO messages (chat_id, seq, role, content) SELECT id, next_seq - 1, 'user', 'lost claim' FROM c) "
        "INSERT INTO turns (id, chat_id, user_id, agent_id, binding_id, epoch, holder, requests, read_seq) "
        "SELECT turn_id, id, user_id, agent_id, binding_id, epoch, $2, 1, next_seq - 1 FROM c",
        bot.binding,
        holder,
    )
    await path.answer(bot, 5001, "You said: lost claim")


@pytest.mark.case("TG-04")
async def test_a_planned_answer_is_sent_once_whatever_becomes_of_its_frontend(path: Rig) -> None:
    bot = await path.bot()
    body = {"ok": False, "error_code": 429, "description": "Too Many", "parameters": {"retry_after": 1}}
    await path.fault(bot, "editMessageText", status=429, body=body)
    await path.says(bot, 5001, "three lights off")
    await path.eventually(
        "SELECT state = 'planned' FROM deliveries WHERE binding_id = $1 AND purpose = 'answer'", bot.binding
    )
    for replica in path.replicas:
        replica.relay.refusing = True
        replica.relay.cut()
    await path.answer(bot, 5001, "You said: three lights off")
    for replica in path.replicas:
        replica.relay.refusing = False
    await path.eventually(
        "SELECT bool_and(state = 'sent') FROM deliveries WHERE binding_id = $1", bot.binding
    )
    assert await path.visible(bot, 5001) == ["You said: three lights off"]
