"""Order and outcomes of planned parts, for the owner whose term it is."""

import asyncio

import pytest

from shared.domain.records import Lane, Part
from shared.store import Database, deliveries
from shared.store.deliveries import Alert, Result

LANE = Lane("bnd_1", "5001")
ALERT = Alert("{name}: look", "Something may not have arrived.")


def part(text: str, action: str = "send", target: int | None = None) -> Part:
    body = {"text": text, "markup": "", "plain": text}
    return Part("answer", action, body, target_id=target)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
async def lane(store: Database) -> None:
    await store.execute("INSERT INTO lanes (binding_id, platform_chat) VALUES ('bnd_1', '5001')")


async def plan(store: Database, *parts: Part) -> list[int]:
    async with store.transaction() as connection:
        await deliveries.lock_lanes(connection, [LANE])
        return await deliveries.plan(connection, [(LANE, each) for each in parts])


async def record(store: Database, term: int, *results: Result) -> int:
    """How many rows took these outcomes."""
    return (await deliveries.record(store, results, term, ALERT)).count


async def settle(store: Database, term: int) -> int:
    return (await deliveries.settle_orphans(store, term, ALERT)).count


async def state(store: Database, delivery: int) -> str:
    return str(await store.fetchval("SELECT state FROM deliveries WHERE id = $1", delivery))


async def test_plans_made_at_once_stay_whole_and_in_one_order(store: Database, other: Database) -> None:
    await asyncio.gather(
        *(plan(each, part(f"{n}a"), part(f"{n}b")) for n, each in enumerate([store, other] * 10))
    )
    rows = await store.fetch("SELECT seq, body->>'text' AS text FROM deliveries ORDER BY seq")
    assert [row["seq"] for row in rows] == list(range(1, 41))
    texts = [row["text"] for row in rows]
    assert all(b == a[:-1] + "b" for a, b in zip(texts[::2], texts[1::2], strict=True))


async def test_only_the_head_of_a_lane_is_claimed_and_only_once(store: Database, other: Database) -> None:
    first, second = await plan(store, part("one"), part("two"))
    claims = await asyncio.gather(*(deliveries.claim_heads(each, [LANE], 1) for each in [store, other] * 3))
    assert [d.id for claimed in claims for d in claimed] == [first]
    assert await record(store, 1, Result(first, "sent", "41")) == 1
    assert [d.id for d in await deliveries.claim_heads(store, [LANE], 1)] == [second]


async def test_a_waiting_head_holds_its_lane(store: Database) -> None:
    (first, _) = await plan(store, part("one"), part("two"))
    await deliveries.claim_heads(store, [LANE], 1)
    await record(store, 1, Result(first, "planned", wait_seconds=60))
    assert await deliveries.claim_heads(store, [LANE], 1) == []
    assert await deliveries.waiting_lanes(store, 10) == []


async def test_an_outcome_of_an_older_owner_changes_nothing(store: Database) -> None:
    (first,) = await plan(store, part("one"))
    await deliveries.claim_heads(store, [LANE], 1)
    assert await settle(store, 2) == 1
    assert await record(store, 1, Result(first, "sent", "41")) == 0
    assert await state(store, first) == "unknown"


async def test_a_new_owner_repeats_edits_and_leaves_sends_unknown(store: Database) -> None:
    (working,) = await plan(store, part("Working"))
    await deliveries.claim_heads(store, [LANE], 1)
    await record(store, 1, Result(working, "sent", "41"))
    edit, send = await plan(store, part("answer", "edit", working), part("more"))
    (claimed,) = await deliveries.claim_heads(store, [LANE], 1)
    assert (claimed.id, claimed.action, claimed.target_message) == (edit, "edit", "41")
    await settle(store, 2)
    assert await state(store, edit) == "planned"
    (again,) = await deliveries.claim_heads(store, [LANE], 2)
    assert again.id == edit
    await record(store, 2, Result(edit, "sent"))
    await deliveries.claim_heads(store, [LANE], 2)
    await settle(store, 3)
    assert await state(store, send) == "unknown"


async def test_an_edit_of_a_message_that_was_never_seen_is_claimed_as_a_send(store: Database) -> None:
    (working,) = await plan(store, part("Working"))
    await deliveries.claim_heads(store, [LANE], 1)
    await record(store, 1, Result(working, "unknown"))
    (edit,) = await plan(store, part("answer", "edit", working))
    (claimed,) = await deliveries.claim_heads(store, [LANE], 1)
    assert (claimed.id, claimed.action) == (edit, "send")


async def test_a_claim_that_was_not_heard_of_is_made_again_by_its_own_owner_only(store: Database) -> None:
    (first,) = await plan(store, part("one"))
    await deliveries.claim_heads(store, [LANE], 1)
    assert await deliveries.claim_heads(store, [LANE], 1) == []
    assert await deliveries.claim_heads(store, [LANE], 2, unheard=[LANE]) == []
    assert [d.id for d in await deliveries.claim_heads(store, [LANE], 1, unheard=[LANE])] == [first]


async def test_one_error_text_that_cannot_be_stored_as_it_is_spoils_no_batch(store: Database) -> None:
    first, second = await plan(store, part("one"), part("two"))
    await deliveries.claim_heads(store, [LANE], 1)
    result = Result(first, "failed", error={"code": "platform_refused", "message": "null \x00 here"})
    assert await record(store, 1, result) == 1
    assert [d.id for d in await deliveries.claim_heads(store, [LANE], 1)] == [second]
