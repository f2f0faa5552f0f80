"""Parts in doubt: who hears of them, once, and how they leave doubt, once."""

import asyncio
from typing import Any

import pytest

from shared.domain.records import Lane, Part
from shared.store import Database, deliveries, doubtful, notices
from shared.store.deliveries import Alert, Result
from shared.store.doubtful import Doubt

LANE = Lane("bnd_1", "5001")
ALERT = Alert("{name}: look", "Something may not have arrived: look at {binding}.")


@pytest.fixture(autouse=True)
async def lane(store: Database) -> None:
    await store.execute("INSERT INTO lanes (binding_id, platform_chat) VALUES ('bnd_1', '5001')")


async def sending(store: Database, purpose: str = "answer", action: str = "send") -> int:
    """The ID of a part that the owner of term 1 is sending."""
    body = {"text": "*hi*", "markup": "MarkdownV2", "plain": "hi"}
    part = Part(purpose, action, body, thread="7", reply_to="41", chat_id="cht_1", part=2)  # type: ignore[arg-type]
    async with store.transaction() as connection:
        await deliveries.lock_lanes(connection, [LANE])
        (made,) = await deliveries.plan(connection, [(LANE, part)])
    await deliveries.claim_heads(store, [LANE], 1)
    return made


async def ends(store: Database, state: str, purpose: str = "answer") -> int:
    """The ID of a part that ended like this."""
    made = await sending(store, purpose)
    await deliveries.record(store, [Result(made, state, error={"code": "outcome_unknown"})], 1, ALERT)
    return made


async def doubt(store: Database, delivery: int) -> Doubt:
    found = await doubtful.one(store, "bnd_1", delivery)
    assert found is not None
    return found


async def row(store: Database, delivery: int) -> dict[str, Any]:
    return dict(await store.fetchrow("SELECT * FROM deliveries WHERE id = $1", delivery))


async def inbox(store: Database) -> list[notices.Notification]:
    return await notices.listed(store, "usr_1", before=0, limit=100)


@pytest.mark.parametrize("state", ["failed", "unknown"])
@pytest.mark.parametrize("purpose", ["answer", "notice", "message"])
async def test_what_did_not_arrive_is_told_with_its_outcome(
    store: Database, state: str, purpose: str
) -> None:
    made = await sending(store, purpose)
    settled = await deliveries.record(store, [Result(made, state)], 1, ALERT)
    assert (settled.count, settled.alerted) == (1, ["usr_1"])
    (told,) = await inbox(store)
    assert (told.sort, told.title, told.body) == (
        "undelivered", "Bot: look", "Something may not have arrived: look at bnd_1.",
    )  # fmt: skip
    assert (told.binding_id, told.link) == ("bnd_1", "")


@pytest.mark.parametrize("purpose", ["working", "notification"])
async def test_neither_a_working_message_nor_a_notification_is_told_of(store: Database, purpose: str) -> None:
    made = await sending(store, purpose)
    settled = await deliveries.record(store, [Result(made, "unknown")], 1, ALERT)
    assert (settled.count, settled.alerted) == (1, [])
    assert await inbox(store) == []


@pytest.mark.parametrize("state", ["sent", "planned"])
async def test_what_arrived_or_is_tried_again_is_not_told_of(store: Database, state: str) -> None:
    made = await sending(store)
    assert (await deliveries.record(store, [Result(made, state)], 1, ALERT)).alerted == []
    assert await inbox(store) == []


async def test_an_outcome_that_is_not_taken_is_not_told_of_either(store: Database) -> None:
    made = await sending(store)
    settled = await deliveries.record(store, [Result(made, "failed")], 2, ALERT)
    assert (settled.count, settled.alerted) == (0, [])
    assert await inbox(store) == []


async def test_an_outage_writes_one_notification_until_that_is_read(store: Database) -> None:
    for _ in range(3):
        await ends(store, "failed")
    (told,) = await inbox(store)
    await notices.mark_read(store, "usr_1", told.id)
    await ends(store, "unknown")
    assert [notice.read_at is None for notice in await inbox(store)] == [True, False]


async def test_two_outcomes_at_the_same_time_write_one_notification(store: Database, other: Database) -> None:
    first = await sending(store)
    await store.execute("INSERT INTO lanes (binding_id, platform_chat) VALUES ('bnd_1', '5002')")
    await store.execute(
        "INSERT INTO deliveries (binding_id, platform_chat, seq, purpose, action, body, state, owner_term) "
        "VALUES ('bnd_1', '5002', 1, 'answer', 'send', '{}', 'sending', 1)"
    )
    second = await store.fetchval("SELECT max(id) FROM deliveries")
    settled = await asyncio.gather(
        deliveries.record(store, [Result(first, "failed")], 1, ALERT),
        deliveries.record(other, [Result(second, "failed")], 1, ALERT),
    )
    assert sorted(len(each.alerted) for each in settled) == [0, 1]
    assert len(await inbox(store)) == 1


async def test_what_a_dead_owner_left_unknown_is_told_of(store: Database) -> None:
    await sending(store)
    settled = await deliveries.settle_orphans(store, 2, ALERT)
    assert (settled.count, settled.alerted) == (1, ["usr_1"])
    assert len(await inbox(store)) == 1


async def test_an_edit_of_a_dead_owner_goes_again_and_nobody_is_told(store: Database) -> None:
    made = await sending(store)
    await store.execute("UPDATE deliveries SET action = 'edit' WHERE id = $1", made)
    assert (await deliveries.settle_orphans(store, 2, ALERT)).alerted == []
    assert await inbox(store) == []


async def test_the_list_is_paged_newest_first(store: Database) -> None:
    made = [await ends(store, state) for state in ("failed", "unknown", "sent", "failed")]
    first = await doubtful.listed(store, "bnd_1", before=0, limit=2)
    assert [each.id for each in first] == [made[3], made[1]]
    second = await doubtful.listed(store, "bnd_1", before=first[-1].id, limit=2)
    assert [each.id for each in second] == [made[0]]
    assert await doubtful.listed(store, "bnd_2", before=0, limit=2) == []


async def test_sent_again_is_the_same_body_as_a_new_message_at_the_end(store: Database) -> None:
    old, later = await ends(store, "unknown"), await ends(store, "sent")
    await store.execute("UPDATE deliveries SET action = 'edit', target_id = $2 WHERE id = $1", old, later)
    async with store.transaction() as connection:
        await deliveries.lock_lanes(connection, [LANE])
        planned = await doubtful.send_again(connection, await doubt(store, old))
    assert planned is not None
    before, after = await row(store, old), await row(store, planned)
    assert (before["state"], before["resent_as"]) == ("resent", planned)
    assert (after["state"], after["action"], after["target_id"]) == ("planned", "send", None)
    kept = ("purpose", "body", "thread", "reply_to", "chat_id", "part", "platform_chat")
    assert [after[name] for name in kept] == [before[name] for name in kept]
    assert after["seq"] > (await row(store, later))["seq"]
    assert [d.id for d in await deliveries.claim_heads(store, [LANE], 1)] == [planned]


async def test_of_two_who_send_again_at_once_one_does(store: Database, other: Database) -> None:
    old = await ends(store, "unknown")
    found = await doubt(store, old)

    async def click(database: Database) -> int | None:
        async with database.transaction() as connection:
            await deliveries.lock_lanes(connection, [LANE])
            return await doubtful.send_again(connection, found)

    planned = await asyncio.gather(*(click(each) for each in [store, other] * 3))
    assert len([each for each in planned if each is not None]) == 1
    assert await store.fetchval("SELECT count(*) FROM deliveries") == 2


async def test_what_was_dismissed_is_not_sent_again_and_the_other_way_round(store: Database) -> None:
    first, second = await ends(store, "failed"), await ends(store, "unknown")
    one, two = await doubt(store, first), await doubt(store, second)
    async with store.transaction() as connection:
        await deliveries.lock_lanes(connection, [LANE])
        assert await doubtful.dismiss(connection, one)
        assert await doubtful.send_again(connection, one) is None
        assert await doubtful.send_again(connection, two)
        assert not await doubtful.dismiss(connection, two)
    assert await doubtful.listed(store, "bnd_1", before=0, limit=9) == []
