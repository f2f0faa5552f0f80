"""Which frontends are alive: the lock falls with the session, the lease with time."""

import contextlib
from collections.abc import Awaitable, Callable

import pytest

from shared.store import Database, StoreUnavailable, leadership, presence, turns
from shared.store.presence import Presence
from tests.support.until import until_answer


def of(database: Database, name: str, lease: float = 60.0) -> Presence:
    return Presence(database, frontend=name, version="1", lease_seconds=lease)


async def alive(store: Database) -> dict[str, bool]:
    return {row.id: row.alive for row in await presence.frontends(store)}


async def end_session(store: Database) -> None:
    await store.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%presence'"
    )


async def running(store: Database, holder: str) -> None:
    await store.execute(
        "WITH c AS (INSERT INTO chats (id, user_id, turn_id, epoch) VALUES ('cht_1', 'usr_1', 1, 1)) "
        "INSERT INTO turns (id, chat_id, user_id, epoch, holder) VALUES (1, 'cht_1', 'usr_1', 1, $1)",
        holder,
    )


async def test_a_frontend_lives_while_it_holds_its_lock_and_renews_its_lease(store: Database) -> None:
    here = of(store, "f1")
    await here.enter()
    assert await alive(store) == {"f1": True}
    await store.execute("UPDATE frontends SET lease_until = now() - interval '1 second'")
    assert await alive(store) == {"f1": False}
    await here.beat()
    assert await alive(store) == {"f1": True}
    await here.leave()
    assert await alive(store) == {}


async def test_a_frontend_is_a_candidate_when_it_says_so_and_lives(store: Database) -> None:
    async def candidates() -> frozenset[str]:
        return (await leadership.standing(store, takeover_seconds=60.0)).candidates

    here = of(store, "f1")
    await here.enter()
    assert await candidates() == frozenset()
    await leadership.stand(store, "f1", candidate=True)
    assert await candidates() == {"f1"}
    await store.execute("UPDATE frontends SET lease_until = now() - interval '1 second'")
    assert await candidates() == frozenset(), "it stands still"
    await here.beat()
    assert await candidates() == {"f1"}
    await end_session(store)
    await until_answer(lambda: gone(candidates))
    successor = of(store, "f1")
    await successor.enter()
    assert await candidates() == frozenset(), "the next process of this name has not said so yet"
    await successor.leave()


async def gone(candidates: Callable[[], Awaitable[frozenset[str]]]) -> bool:
    return not await candidates()


async def test_turns_of_a_lost_session_are_orphans_until_the_next_beat(store: Database) -> None:
    here = of(store, "f1")
    await here.enter()
    await running(store, "f1")
    assert await turns.orphans(store, 9) == []
    await end_session(store)
    await until_answer(lambda: turns.orphans(store, 9))
    assert await alive(store) == {"f1": False}
    with contextlib.suppress(StoreUnavailable):
        await here.beat()
    await here.beat()
    assert await turns.orphans(store, 9) == []
    await here.leave()


async def test_two_living_frontends_of_one_name_are_refused(store: Database, other: Database) -> None:
    first, second = of(store, "f1"), of(other, "f1")
    await first.enter()
    with pytest.raises(StoreUnavailable, match="TRUNKLINE_FRONTEND_ID"):
        await second.enter()
    await first.leave()
    await second.enter()
    await second.leave()


async def test_what_an_earlier_process_of_the_name_left_may_be_taken_by_anybody(store: Database) -> None:
    await running(store, "f1")
    here = of(store, "f1")
    await here.enter()
    assert [turn.id for turn in await turns.orphans(store, 9)] == [1]
    await here.leave()
