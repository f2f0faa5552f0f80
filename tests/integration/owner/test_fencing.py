"""An owner without the database, or with a newer one in its place, has no effect and no add-ons."""

from collections.abc import AsyncIterator

import pytest

from shared.carrier import operations as ops
from shared.domain.errors import Failure, OwnerFenced, OwnerUnready
from tests.support.rig import Rig, rig
from tests.support.until import until, until_answer

SHORT = {"lease_renew_seconds": 0.2, "lease_trust_seconds": 1.0, "lease_seconds": 2.0}


@pytest.fixture
async def path(database_url: str) -> AsyncIterator[Rig]:
    async with rig(database_url, frontends=1, owner=SHORT) as started:
        yield started


async def answer(path: Rig) -> str:
    """What the owner says to a question: the code of its refusal, or `ok`."""
    try:
        await path.carrier.call(ops.RUNNING, ops.Nothing())
    except Failure as failure:
        return failure.code
    return "ok"


async def says(path: Rig, wanted: str) -> None:
    async def same() -> bool:
        return await answer(path) == wanted

    await until_answer(same, within=15)


async def test_without_the_database_it_fences_itself_and_resumes_when_nobody_took_over(path: Rig) -> None:
    bot = await path.bot()
    await path.says(bot, 5001, "before")
    await path.answer(bot, 5001, "You said: before")
    term = await path.database.fetchval("SELECT term FROM leases WHERE name LIKE 'owner:%'")
    path.owner_relay.freeze()
    await says(path, "owner_fenced")
    await until(lambda: not path.addon_pids("telegram") and not path.addon_pids("probe"), within=5)
    lease = "SELECT extract(epoch FROM clock_timestamp() - renewed_at)::float FROM leases WHERE name LIKE 'owner:%'"
    assert await path.database.fetchval(lease) < 2.0 + 1.0
    await path.says(bot, 5001, "meanwhile")
    path.owner_relay.thaw()
    await says(path, "ok")
    await path.answer(bot, 5001, "You said: meanwhile", within=15)
    assert await path.visible(bot, 5001) == ["You said: before", "You said: meanwhile"]
    assert await path.database.fetchval("SELECT term FROM leases WHERE name LIKE 'owner:%'") == term


async def test_what_it_was_sending_when_it_was_fenced_blocks_nothing_afterwards(path: Rig) -> None:
    bot = await path.bot(reply_mode="off")
    await path.fault(bot, "sendMessage", delay_ms=6000)
    await path.says(bot, 5001, "in the middle")
    await path.eventually("SELECT state = 'sending' FROM deliveries WHERE binding_id = $1", bot.binding)
    path.owner_relay.freeze()
    await says(path, "owner_fenced")
    path.owner_relay.thaw()
    await says(path, "ok")
    await path.says(bot, 5001, "afterwards")
    await path.answer(bot, 5001, "You said: afterwards", within=15)
    await path.eventually(
        "SELECT array_agg(state ORDER BY seq) = '{unknown,sent}' FROM deliveries WHERE binding_id = $1",
        bot.binding,
    )


@pytest.mark.req("CLU-23")
@pytest.mark.req("CLU-34")
async def test_a_newer_owner_fences_it_for_good_and_the_list_of_kinds_is_an_error(path: Rig) -> None:
    bot = await path.bot()
    await path.database.execute(
        "UPDATE leases SET term = term + 1, holder = 'another machine/1' WHERE name LIKE 'owner:%'"
    )
    await says(path, "owner_fenced")
    await until(lambda: not path.addon_pids("telegram"), within=5)
    assert (await path.kinds(bot))[0] == 503
    with pytest.raises(OwnerFenced):
        await path.carrier.call(ops.TEST, ops.Test(bot.binding), actor=bot.user)


@pytest.mark.req("CLU-22")
async def test_an_owner_that_is_still_starting_is_an_error_and_no_empty_list(database_url: str) -> None:
    async with rig(database_url, frontends=1, with_owner=False) as path:
        bot = await path.bot()
        with pytest.raises(OwnerUnready):
            await path.carrier.call(ops.RUNNING, ops.Nothing())
        status, body = await path.kinds(bot)
        assert status == 503
        assert "kinds" not in body
        await path.owner.start()
        status, body = await path.kinds(bot)
        assert status == 200
        assert "telegram" in str(body)


async def test_a_database_session_that_ends_fences_nobody(path: Rig) -> None:
    pids = path.addon_pids("telegram")
    ended = await path.database.fetchval(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'trunkline owner%'"
    )
    assert ended > 0
    bot = await path.bot()
    await path.says(bot, 5001, "all the same")
    await path.answer(bot, 5001, "You said: all the same")
    assert path.addon_pids("telegram") == pids
