"""A leader that does not know yet that a newer one has claimed its bindings."""

import pytest

from shared.store import cursors
from tests.support.rig import Bot, Rig
from tests.support.until import until_answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

REFUSED = {"ok": False, "error_code": 401, "description": "Unauthorized"}


async def overtaken(path: Rig, bot: Bot) -> int:
    """A newer term claims the binding while a poll of the present one is out; answers the term that is stale now."""
    await until_answer(lambda: path.calls(bot, "getUpdates"))
    term = int(
        await path.database.fetchval("SELECT term FROM binding_cursor WHERE binding_id = $1", bot.binding)
    )
    claims = await cursors.claim(path.database, [bot.binding], term + 1)
    assert claims.cursors
    return term


@pytest.mark.case("CL-01")
async def test_a_stale_leader_stores_nothing_although_the_position_is_the_one_it_polled_from(
    path: Rig,
) -> None:
    bot = await path.bot()
    stale = await overtaken(path, bot)
    await path.says(bot, 5001, "once")
    await path.answer(bot, 5001, "You said: once", within=15)
    row = await path.database.fetchrow("SELECT term FROM inbound WHERE binding_id = $1", bot.binding)
    assert row["term"] > stale
    assert await path.visible(bot, 5001) == ["You said: once"]
    out_of_place = (
        "SELECT count(*) FROM inbound i JOIN binding_cursor c USING (binding_id) "
        "WHERE i.received_at > c.claimed_at AND i.term <> c.term"
    )
    assert await path.database.fetchval(out_of_place) == 0


async def test_a_stale_leader_switches_nothing_off_and_its_term_ends(path: Rig) -> None:
    bot = await path.bot()
    stale = await overtaken(path, bot)
    await path.fault(bot, "getUpdates", status=401, body=REFUSED, times=1)
    await path.eventually(
        "SELECT term > $1 AND NOT released FROM leases WHERE name = 'leader'", stale, within=15
    )
    await path.says(bot, 5001, "still here?")
    await path.answer(bot, 5001, "You said: still here?", within=15)
    row = await path.database.fetchrow("SELECT enabled, off_reason FROM bindings WHERE id = $1", bot.binding)
    assert (row["enabled"], row["off_reason"]) == (True, "")
    assert (
        await path.database.fetchval("SELECT count(*) FROM notifications WHERE user_id = $1", bot.user) == 0
    )


async def test_a_refusal_that_says_gone_ends_no_reader_while_the_connection_is_wanted(path: Rig) -> None:
    bot = await path.bot()
    gone = {"ok": False, "error_code": 400, "description": "Bad Request: chat not found"}
    await path.fault(bot, "getUpdates", status=400, body=gone, times=2)
    await path.says(bot, 5001, "after that")
    await path.answer(bot, 5001, "You said: after that", within=15)
