"""A leader claims a read position before it reads from it; whoever claimed it before writes nothing any more."""

import asyncio
from datetime import datetime

import pytest

from shared.domain.errors import CallerFenced
from shared.lifecycle import Tasks
from shared.sdk.ops import Inbound, Person
from shared.store import Database, admission, bindings, cursors, intake
from shared.store.cursors import Cursor
from tests.support.until import until_answer

MESSAGE = Inbound(chat="5001", sender=Person("5001"), id="1", text="hi", direct=True)
OFF = {"reason": "because", "title": "off"}


async def claimed(store: Database, term: int) -> Cursor:
    return (await cursors.claim(store, ["bnd_1"], term)).cursors["bnd_1"]


async def claimed_at(store: Database) -> datetime:
    at = await store.fetchval("SELECT claimed_at FROM binding_cursor")
    assert isinstance(at, datetime)
    return at


async def enabled(store: Database) -> bool:
    return bool(await store.fetchval("SELECT enabled FROM bindings"))


async def out_of_place(store: Database) -> int:
    """Messages that came after the present claim and do not carry its term: the rule of the outside checker."""
    return int(
        await store.fetchval(
            "SELECT count(*) FROM inbound i JOIN binding_cursor c ON c.binding_id = i.binding_id "
            "WHERE i.received_at > c.claimed_at AND i.term <> c.term"
        )
    )


async def waits_for_a_lock(store: Database) -> None:
    await until_answer(
        lambda: store.fetchval("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    )


async def test_an_older_term_that_wakes_after_a_newer_claim_stores_nothing(store: Database) -> None:
    old = await claimed(store, 5)
    assert await claimed(store, 6) == old
    stored = await intake.store_poll(store, old, term=5, position="2", messages=[MESSAGE])
    assert not stored.moved
    assert await store.fetchval("SELECT count(*) FROM inbound") == 0


async def test_an_older_term_that_wakes_after_a_newer_claim_switches_nothing_off(store: Database) -> None:
    await claimed(store, 5)
    await claimed(store, 6)
    with pytest.raises(CallerFenced):
        async with store.transaction() as connection:
            await admission.switch_off_as_leader(connection, "bnd_1", term=5, **OFF)
    assert await enabled(store)
    assert await store.fetchval("SELECT count(*) FROM notifications") == 0
    async with store.transaction() as connection:
        assert await admission.switch_off_as_leader(connection, "bnd_1", term=6, **OFF) == "usr_1"
    assert not await enabled(store)


async def test_a_binding_that_is_off_already_is_no_sign_of_another_leader(store: Database) -> None:
    await store.execute("UPDATE bindings SET enabled = false")
    async with store.transaction() as connection:
        assert await admission.switch_off_as_leader(connection, "bnd_1", term=5, **OFF) is None


async def test_an_older_term_claims_nothing_and_hears_of_it(store: Database) -> None:
    await claimed(store, 6)
    before = await claimed_at(store)
    claims = await cursors.claim(store, ["bnd_1", "bnd_gone"], 5)
    assert (claims.cursors, claims.fenced) == ({}, ("bnd_1",))
    assert await claimed_at(store) == before


async def test_a_term_may_claim_again_and_keeps_the_time_of_its_claim(store: Database) -> None:
    await intake.store_poll(store, await claimed(store, 5), term=5, position="2", messages=[MESSAGE])
    before = await claimed_at(store)
    assert (await claimed(store, 5)).position == "2"
    assert await claimed_at(store) == before


async def test_a_claim_waits_for_what_the_older_term_is_storing_and_reads_what_it_left(
    store: Database, other: Database
) -> None:
    tasks = Tasks("claims")
    old = await claimed(store, 5)
    async with store.transaction() as connection:
        assert (await intake.store_poll(connection, old, term=5, position="2", messages=[MESSAGE])).moved
        claim = tasks.run("claim", claimed(other, 6))
        await waits_for_a_lock(store)
    assert (await claim).position == "2"
    assert await out_of_place(store) == 0
    assert await store.fetchval("SELECT received_at < (SELECT claimed_at FROM binding_cursor) FROM inbound")


async def test_a_claim_waits_for_a_pushed_message_and_is_newer_than_it(
    store: Database, other: Database
) -> None:
    tasks = Tasks("claims")
    await claimed(store, 5)
    async with store.transaction() as connection:
        assert await intake.store_pushed(connection, "bnd_1", MESSAGE)
        claim = tasks.run("claim", claimed(other, 6))
        await waits_for_a_lock(store)
    await claim
    assert await out_of_place(store) == 0
    again = Inbound(chat="5001", sender=Person("5001"), id="2", text="hi", direct=True)
    assert await intake.store_pushed(store, "bnd_1", again)
    assert await out_of_place(store) == 0


async def test_a_newer_leader_waits_for_a_switch_off_that_is_under_way(
    store: Database, other: Database
) -> None:
    tasks = Tasks("claims")
    await claimed(store, 5)
    async with store.transaction() as connection:
        await admission.switch_off_as_leader(connection, "bnd_1", term=5, **OFF)
        claim = tasks.run("claim", claimed(other, 6))
        await waits_for_a_lock(store)
    await claim
    assert not await enabled(store)


@pytest.mark.parametrize("stays", [True, False], ids=["kept", "deleted"])
async def test_a_pushed_message_and_a_delete_leave_no_row_without_its_binding(
    store: Database, other: Database, stays: bool
) -> None:
    tasks = Tasks("pushes")
    if stays:
        async with store.transaction() as connection:
            assert await intake.store_pushed(connection, "bnd_1", MESSAGE)
            removed = tasks.run("remove", bindings.remove(other, "usr_1", "bnd_1"))
            await waits_for_a_lock(store)
        assert await removed
    else:
        async with store.transaction() as connection:
            assert await bindings.remove(connection, "usr_1", "bnd_1")
            pushed = tasks.run("push", intake.store_pushed(other, "bnd_1", MESSAGE))
            await waits_for_a_lock(store)
        assert not await pushed
    assert await store.fetchval("SELECT (SELECT count(*) FROM inbound) + (SELECT count(*) FROM lanes)") == 0


async def test_two_leaders_that_claim_everything_at_once_do_not_stop_each_other(
    store: Database, other: Database
) -> None:
    await store.execute(
        "INSERT INTO bindings (id, user_id, kind, name) SELECT 'more_' || n, 'usr_1', 'telegram', 'Bot' "
        "FROM generate_series(1, 300) n"
    )
    await store.execute("INSERT INTO binding_cursor (binding_id) SELECT id FROM bindings WHERE id <> 'bnd_1'")
    ids = [row["id"] for row in await store.fetch("SELECT id FROM bindings")]
    for round_ in range(1, 11):
        older, newer = await asyncio.gather(
            cursors.claim(store, ids, 2 * round_), cursors.claim(other, ids[::-1], 2 * round_ + 1)
        )
        assert len(newer.cursors) == 301
        assert len(older.cursors) + len(older.fenced) == 301
    assert await store.fetchval("SELECT count(*) FROM binding_cursor WHERE term = 21") == 301
