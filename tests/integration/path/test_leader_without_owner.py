"""A leader is of use only with the owner; silence of its bots is not the owner's."""

import asyncio

import pytest

from shared.carrier import operations as ops
from shared.domain.errors import CallerFenced
from shared.lifecycle import Tasks
from tests.support.rig import rig


async def test_a_leader_whose_bots_say_nothing_keeps_its_term(database_url: str) -> None:
    quick = {"owner_loss_seconds": 1.0, "try_seconds": 0.05}
    async with rig(database_url, leader=quick, poll={"wait_seconds": 2.0}) as path:
        bot = await path.bot()
        term = await path.eventually("SELECT term FROM leases WHERE name = 'leader'")
        first = await path.sim.get("telegram/wait", since=0, method="getUpdates", status=200, timeout=10)
        # The first poll waits for nothing, the second one in vain.
        page = await path.sim.get(
            "telegram/wait", since=first["next"], method="getUpdates", status=200, timeout=10
        )
        assert page["found"]
        await path.says(bot, 5001, "after a long silence")
        await path.answer(bot, 5001, "You said: after a long silence")
        assert await path.database.fetchval("SELECT term FROM leases WHERE name = 'leader'") == term


async def test_a_leader_without_the_owner_gives_the_lead_back_and_takes_it_again_later(
    database_url: str,
) -> None:
    quick = {"owner_loss_seconds": 0.8, "abstain_seconds": 0.5, "try_seconds": 0.05}
    async with rig(database_url, leader=quick, with_owner=False) as path:
        await path.eventually("SELECT released AND term >= 1 FROM leases WHERE name = 'leader'")
        await path.owner.start()
        bot = await path.bot()
        await path.says(bot, 5001, "now there is one")
        await path.answer(bot, 5001, "You said: now there is one", within=15)
        status = await path.carrier.call(ops.STATUS, ops.Nothing())
        assert status.terms[0] == await path.database.fetchval(
            "SELECT term FROM leases WHERE name = 'leader'"
        )


async def test_an_older_leader_is_refused_by_the_owner(database_url: str) -> None:
    async with rig(database_url) as path:
        bot = await path.bot()
        await path.says(bot, 5001, "led")
        await path.answer(bot, 5001, "You said: led")
        poll = ops.Poll(0, bot.binding, 1, "", 1.0)
        with pytest.raises(CallerFenced):
            await path.carrier.call(ops.POLL, poll, term=0)


async def test_the_long_poll_of_the_leader_before_ends_as_soon_as_a_newer_one_is_announced(
    database_url: str,
) -> None:
    async with rig(database_url, frontends=0) as path:
        bot = await path.bot()
        poll = ops.Poll(0, bot.binding, 1, "", 40.0)
        old = Tasks("leader").run("poll", path.carrier.call(ops.POLL, poll, term=5))
        page = await path.sim.get("telegram/wait", since=0, method="getUpdates", state="received", timeout=10)
        assert page["found"]
        await path.carrier.call(ops.ANNOUNCE, ops.Announce(0), term=6)
        with pytest.raises(CallerFenced):
            await asyncio.wait_for(old, 5)
