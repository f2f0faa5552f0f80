"""The ledger of writes: stored once, found again, and never for a turn that is over."""

import asyncio
from typing import Any

import pytest

from shared.store import Database, operations
from shared.store.operations import Operation


@pytest.fixture(autouse=True)
async def turn(store: Database) -> None:
    await store.execute("INSERT INTO chats (id, user_id, turn_id, epoch) VALUES ('cht_1', 'usr_1', 1, 2)")
    await store.execute(
        "INSERT INTO turns (id, chat_id, user_id, epoch, holder) VALUES (1, 'cht_1', 'usr_1', 2, 'f1')"
    )


async def begin(database: Database, *, epoch: int = 2, term: int = 1) -> Operation | None:
    facts: dict[str, Any] = {
        "user_id": "usr_1",
        "binding_id": "",
        "addon": "probe",
        "tool": "t",
        "arguments": {},
    }
    return await operations.begin(database, "op-1", turn_id=1, epoch=epoch, owner_term=term, **facts)


async def test_of_many_at_once_one_is_new_and_all_find_it(store: Database, other: Database) -> None:
    found = await asyncio.gather(*(begin(each) for each in [store, other] * 8))
    assert [each.new for each in found if each is not None].count(True) == 1
    assert all(each is not None and each.state == "started" for each in found)


async def test_an_older_epoch_and_a_turn_that_is_over_get_nothing(store: Database) -> None:
    assert await begin(store, epoch=1) is None
    await begin(store)
    assert await begin(store, epoch=1) is None
    await store.execute("UPDATE turns SET state = 'done'")
    assert await begin(store) is None


async def test_a_recorded_outcome_is_never_replaced(store: Database) -> None:
    await begin(store)
    await operations.finish(store, "op-1", "unknown", {})
    await operations.finish(store, "op-1", "done", {"content": "x"})
    again = await begin(store, term=2)
    assert again is not None
    assert (again.new, again.state, again.owner_term, again.result) == (False, "unknown", 1, {})
