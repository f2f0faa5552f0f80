"""Locks and terms: who leads, who has lost the lead, and who may end a session that says nothing any more."""

import asyncio
import contextlib

import asyncpg

from shared.store import Database, StoreUnavailable, leadership, leases
from shared.store.leases import KEY_CHATS_CONNECTORS, Lease, Timing
from tests.support.until import until_answer

LOCK = (KEY_CHATS_CONNECTORS, 0)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lease(database: Database, holder: str, clock: Clock, takeover: float = 0.3) -> Lease:
    timing = Timing(0.1, 0.2, takeover)
    return Lease(database, name="leader", shard=0, lock=LOCK, holder=holder, timing=timing, clock=clock)


async def test_one_wins_and_a_release_lets_the_next_win_at_once(store: Database, other: Database) -> None:
    clock = Clock()
    first, second = lease(store, "a", clock, 60), lease(other, "b", clock, 60)
    assert await first.try_acquire()
    assert not await second.try_acquire()
    assert (first.term, second.term) == (1, 0)
    await first.release()
    assert await second.try_acquire()
    assert (first.term, second.term) == (0, 2)
    assert not first.trusted
    await second.close()
    (row,) = await leases.read(store, "leader")
    assert row.released


async def test_trust_counts_from_when_the_renewal_was_sent(store: Database) -> None:
    clock = Clock()
    held = lease(store, "a", clock)
    await held.try_acquire()
    trusted = []
    for step in (0.19, 0.02):
        clock.now += step
        trusted.append(held.trusted)
    await held.renew()
    assert [*trusted, held.trusted] == [True, False, True]
    await held.close()


async def test_the_session_of_a_silent_holder_is_ended_and_its_term_is_over(
    store: Database, other: Database
) -> None:
    clock = Clock()
    silent, follower = lease(store, "a", clock), lease(other, "b", clock)
    assert await silent.try_acquire()
    assert not await follower.try_acquire()
    await store.execute("UPDATE leases SET renewed_at = clock_timestamp() - interval '1 second'")
    assert await follower.try_acquire(), "the lock is had at once"
    assert follower.term == 2
    assert not await silent.renew()
    assert silent.term == 0
    await follower.close()
    await silent.close()


async def test_a_lost_session_loses_the_term(store: Database) -> None:
    clock = Clock()
    held = lease(store, "a", clock)
    await held.try_acquire()
    await store.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%leader'"
    )
    assert not await held.renew()
    assert not held.trusted
    assert await held.try_acquire()
    assert held.term == 2
    await held.close()


async def test_a_session_lock_alone_is_not_enough_where_the_lease_counts(
    store: Database, other: Database
) -> None:
    clock = Clock()
    first, second = lease(store, "a", clock, 0.5), lease(other, "b", clock, 0.5)
    await first.try_acquire()
    await store.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'trunkline test leader'"
    )
    assert not await second.try_acquire(whatever_the_lease=False)
    assert await leases.renew_term(store, "leader", "a", first.term)
    await store.execute("UPDATE leases SET renewed_at = clock_timestamp() - interval '1 second'")
    assert await second.try_acquire(whatever_the_lease=False)
    assert not await leases.renew_term(store, "leader", "a", 1)
    await second.close()
    await first.close()


async def test_no_two_of_many_that_try_together_win_the_same_term(store: Database, other: Database) -> None:
    clock = Clock()
    tried = [lease(store if n % 2 else other, f"f{n}", clock, 60) for n in range(6)]
    won: list[int] = []
    for round_ in range(8):
        await asyncio.gather(*(each.try_acquire() for each in tried))
        (winner,) = (each for each in tried if each.term)
        won.append(winner.term)
        if round_ % 2:
            await winner.release()
        else:
            await store.execute("SELECT pg_terminate_backend(backend_pid, 1000) FROM leases")
            await winner.lose()
    assert won == list(range(1, 9))
    for each in tried:
        await each.close()


async def test_an_older_term_renews_and_releases_nothing_of_a_newer_one_of_the_same_holder(
    store: Database, other: Database
) -> None:
    clock = Clock()
    old, new = lease(store, "a", clock), lease(other, "a", clock)
    await old.try_acquire()
    await store.execute("SELECT pg_terminate_backend(backend_pid, 1000) FROM leases")
    assert await new.try_acquire()
    before = await store.fetchrow("SELECT * FROM leases")
    assert not await leases.renew_term(store, "leader", "a", old.term)
    await old.release()
    assert await store.fetchrow("SELECT * FROM leases") == before
    assert await new.renew()
    await new.close()


async def test_each_shard_is_won_and_lost_on_its_own(store: Database, other: Database) -> None:
    timing = Timing(0.1, 0.2, 60.0)
    shards = [
        Lease(db, name="leader", shard=n, lock=(KEY_CHATS_CONNECTORS, n), holder=f"f{n}", timing=timing)
        for n, db in enumerate([store, other])
    ]
    for each in shards:
        assert await each.try_acquire()
    kept = shards[1].term
    await shards[0].release()
    assert await shards[0].try_acquire()
    assert shards[1].term == kept
    assert await shards[1].renew()
    seen = await leadership.standing(store, takeover_seconds=60.0)
    assert (seen.led, seen.last) == ({0: "f0", 1: "f1"}, {})
    await shards[1].close()
    seen = await leadership.standing(store, takeover_seconds=60.0)
    assert (seen.led, seen.last) == ({0: "f0"}, {1: "f1"})
    await shards[0].close()


async def test_a_silent_leader_is_seen_as_none(store: Database) -> None:
    held = lease(store, "a", Clock())
    await held.try_acquire()
    await store.execute("UPDATE leases SET renewed_at = clock_timestamp() - interval '5 seconds'")
    assert (await leadership.standing(store, takeover_seconds=4.0)).led == {}
    assert (await leadership.standing(store, takeover_seconds=60.0)).led == {0: "a"}
    await held.close()


async def test_no_lock_is_left_behind(store: Database, other: Database) -> None:
    clock = Clock()
    for _ in range(3):
        held = lease(other, "a", clock)
        assert await held.try_acquire()
        await held.close()
    locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    assert await store.fetchval(locks) == 0


async def test_a_new_session_is_opened_for_one_that_was_ended(database_url: str, store: Database) -> None:
    held = lease(store, "a", Clock())
    await held.try_acquire()
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND application_name LIKE 'trunkline%'"
        )
    finally:
        await connection.close()
    with contextlib.suppress(StoreUnavailable):
        await held.try_acquire()
    await until_answer(held.try_acquire)
    await held.close()


async def test_a_term_of_one_shard_is_newer_than_every_earlier_one_of_another(store: Database) -> None:
    """With another number of shards a binding moves, and its cursor keeps the term of the shard it was in."""
    before = 0
    for shard in (0, 1, 0, 1, 1):
        lease = Lease(store, name="leader", shard=shard, lock=(1, shard), holder="f", timing=Timing(1, 2, 3))
        assert await lease.try_acquire()
        assert lease.term > before
        before = lease.term
        await lease.release()
