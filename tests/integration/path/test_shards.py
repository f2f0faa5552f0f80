"""Shards in one process: who comes gets a share, who goes leaves it, and nothing stays unled because of a wrong view."""

from collections import Counter
from itertools import count
from typing import Any
from zlib import crc32

from structlog.testing import capture_logs

from shared.lifecycle import Tasks
from shared.store import leadership, leases
from shared.store.presence import Presence
from tests.support.rig import Bot, Replica, Rig, rig
from tests.support.until import until_answer

SHARDS = 4


def shard_of(bot: Bot) -> int:
    return crc32(bot.binding.encode()) % SHARDS


async def bots(path: Rig) -> dict[int, Bot]:
    """One bot in each shard."""
    found: dict[int, Bot] = {}
    for _ in count():
        bot = await path.bot()
        found[shard_of(bot)] = bot
        if len(found) == SHARDS:
            break
    return found


async def led(path: Rig) -> dict[int, str]:
    """Shard -> who leads it now."""
    seen = await leadership.standing(path.database, takeover_seconds=60.0)
    return seen.led


async def shares(path: Rig, *expected: int) -> dict[int, str]:
    """Wait until the frontends lead so many shards each, in any order; shard -> leader."""

    async def balanced() -> dict[int, str]:
        found = await led(path)
        ours = Counter(found.values())
        counts = sorted(ours[replica.id] for replica in path.replicas)
        return found if counts == sorted(expected) else {}

    found: dict[int, str] = await until_answer(balanced, within=10)
    return found


async def all_answer(path: Rig, bots: dict[int, Bot], text: str) -> None:
    for bot in bots.values():
        await path.says(bot, 5001, text)
    for bot in bots.values():
        await path.answer(bot, 5001, f"You said: {text}")


async def terms(path: Rig) -> dict[int, int]:
    return {row.shard: row.term for row in await leases.read(path.database, "leader")}


async def renewed_again(path: Rig) -> None:
    """Wait until every lease was renewed three times, by when each frontend has looked many times."""
    since = await path.database.fetchval("SELECT clock_timestamp()")
    seconds = 3 * path.settings.leader.renew_seconds
    query = "SELECT min(renewed_at) > $1::timestamptz + make_interval(secs => $2) FROM leases WHERE name = 'leader'"
    await path.eventually(query, since, seconds)


async def test_who_comes_gets_a_share_and_who_goes_leaves_it_to_the_others(database_url: str) -> None:
    async with rig(database_url, poll={"shards": SHARDS, "wait_seconds": 2.0}) as path:
        ours = await bots(path)
        await shares(path, 4)
        await all_answer(path, ours, "one frontend")
        alone = await terms(path)
        await path.add_frontend()
        two = await shares(path, 2, 2)
        moved = [shard for shard, term in (await terms(path)).items() if term != alone[shard]]
        assert len(moved) == 2, "only two shards changed hands"
        await all_answer(path, ours, "two frontends")
        newest = await path.add_frontend()
        three = await shares(path, 1, 1, 2)
        assert sum(two[shard] != three[shard] for shard in range(SHARDS)) == 1
        await all_answer(path, ours, "three frontends")
        await path.stop_frontend(newest)
        left = await shares(path, 2, 2)
        assert all(left[shard] == three[shard] for shard in range(SHARDS) if three[shard] != newest.id)
        await all_answer(path, ours, "two again")


async def test_the_poll_of_a_binding_moves_with_its_shard(database_url: str) -> None:
    async with rig(database_url, poll={"shards": SHARDS, "wait_seconds": 2.0}) as path:
        ours = await bots(path)
        before, alone = await shares(path, 4), await terms(path)
        await path.add_frontend()
        after = await shares(path, 2, 2)
        await all_answer(path, ours, "hello")
        numbers = await terms(path)
        for shard, bot in ours.items():
            written = await path.database.fetchval(
                "SELECT term FROM binding_cursor WHERE binding_id = $1", bot.binding
            )
            assert written == numbers[shard]
            assert (numbers[shard] == alone[shard]) is (before[shard] == after[shard])


async def test_the_only_shard_stays_where_it_is_when_others_come(database_url: str) -> None:
    async with rig(database_url) as path:
        leader, alone = await path.leader(), await terms(path)
        for _ in range(2):
            await path.add_frontend()
        await renewed_again(path)
        assert await led(path) == {0: leader.id}
        assert await terms(path) == alone


async def test_a_shard_given_to_one_that_never_takes_it_is_led_by_another_that_keeps_it(
    database_url: str,
) -> None:
    async with rig(database_url, frontends=0, poll={"shards": 2, "wait_seconds": 2.0}) as path:
        idle = Presence(path.database, frontend="idle", version="1", lease_seconds=60.0)
        await idle.enter()
        await leadership.stand(path.database, "idle", candidate=True)
        only = await path.add_frontend()
        await shares(path, 2)
        numbers = await terms(path)
        await renewed_again(path)
        assert await led(path) == {0: only.id, 1: only.id}
        assert await terms(path) == numbers
        await idle.leave()


async def test_the_shards_of_one_that_stops_are_led_by_the_others_while_it_still_runs_a_turn(
    database_url: str,
) -> None:
    """Its row is there to the end of its turns, so only its word that it leads no more gives its share to others."""
    rarely = {"try_seconds": 5.0, "renew_seconds": 0.2, "trust_seconds": 1.0, "takeover_seconds": 1.5}
    async with rig(database_url, poll={"shards": 2, "wait_seconds": 2.0}, leader=rarely) as path:
        bot, (stopping,) = await path.bot(), path.replicas
        await shares(path, 2)
        await path.script("a long one", {"text": "answer to a long one"}, delay_ms=7000)
        await path.says(bot, 5001, "a long one")
        await path.eventually("SELECT count(*) = 1 FROM turns WHERE state = 'running' AND read_seq > 0")
        await path.add_frontend()
        await shares(path, 1, 1)
        stop = Tasks("stop").run("frontend", path.stop_frontend(stopping))
        await shares(path, 2)
        assert not stop.done()
        await stop


async def leadership_check(path: Rig, replica: Replica) -> dict[str, Any]:
    async with path.sim.http.get(replica.frontend.url + "/readyz") as response:
        found: dict[str, Any] = (await response.json())["checks"]["leadership"]
    return found


async def test_a_frontend_warns_once_that_another_one_counts_more_shards(database_url: str) -> None:
    async with rig(database_url, poll={"shards": 1, "wait_seconds": 2.0}) as path:
        (fewer,) = path.replicas
        before = await leadership_check(path, fewer)
        assert (before["message"], before["foreign_shards"]) == ("", [])
        with capture_logs() as logs:
            more = await path.add_frontend(poll={"shards": 2, "wait_seconds": 2.0})

            async def noticed() -> dict[str, Any] | None:
                check = await leadership_check(path, fewer)
                return check if check["foreign_shards"] else None

            found = await until_answer(noticed)
            await renewed_again(path)
        assert (found["ok"], found["foreign_shards"]) == (True, [1])
        assert "TRUNKLINE_POLL_SHARDS" in found["message"]
        assert (await leadership_check(path, more))["foreign_shards"] == []
        warned = [entry for entry in logs if entry["event"] == "numbers_of_shards_differ"]
        assert [(entry["shards"], entry["led_beyond"]) for entry in warned] == [(1, [1])]
        await path.stop_frontend(more)

        async def over() -> bool:
            return not (await leadership_check(path, fewer))["foreign_shards"]

        await until_answer(over)
