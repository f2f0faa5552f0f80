"""Several shards: each is led on its own, and they are spread over the frontends that live."""

import os
import signal
from collections.abc import AsyncIterator
from itertools import count
from typing import Any
from zlib import crc32

import pytest
import pytest_asyncio

from tests.support.cluster import Cluster, People
from tests.support.until import until_answer

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

SHARDS = 4
#: leases short enough for tests of stopped processes, in the proportions of the defaults
SHORT = {
    "TRUNKLINE_POLL_SHARDS": str(SHARDS),
    "TRUNKLINE_LEADER_RENEW_SECONDS": "0.3",
    "TRUNKLINE_LEADER_TRUST_SECONDS": "1.0",
    "TRUNKLINE_LEADER_TAKEOVER_SECONDS": "1.6",
    "TRUNKLINE_LEADER_ABSTAIN_SECONDS": "2",
    "TRUNKLINE_TURNS_RENEW_SECONDS": "0.3",
    "TRUNKLINE_TURNS_LEASE_SECONDS": "1.6",
    "TRUNKLINE_LIMITS_SENDER_PER_MINUTE": "1000",
}
#: who writes to the bot of a shard: this number and that of the shard
PERSON = 60_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(frontends=3, settings=SHORT) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bots(cluster: Cluster) -> dict[int, People]:
    """One bot in each shard, besides that of the demo."""
    found: dict[int, People] = {}
    for n in count(1):
        token = f"{8000 + n}:secret-of-a-sharded-bot-{n}"
        body = {"kind": "telegram", "name": f"Bot {n}", "token": token, "enabled": True}
        body |= {"agent_id": cluster.run["demo"]["agent_id"]}
        body |= {"allow": [str(PERSON + shard) for shard in range(SHARDS)]}
        status, made = await cluster.api("POST", "/api/chats/connectors", json=body)
        assert status in {200, 201}, made
        found[crc32(made["id"].encode()) % SHARDS] = cluster.people(token)
        if len(found) == SHARDS:
            return found
    raise AssertionError("no end")


async def led(cluster: Cluster) -> dict[str, list[int]]:
    """Frontend -> the shards that it leads, as the API of one that lives says."""
    status, view = await cluster.api("GET", "/api/cluster")
    assert status == 200
    return {member["id"]: member["shards"] for member in view["frontends"] if member["alive"]}


async def spread(cluster: Cluster) -> dict[str, list[int]]:
    """Wait until all shards are led, by each of three frontends one or two."""

    async def balanced() -> dict[str, list[int]] | None:
        try:
            found = await led(cluster)
        except OSError:  # the frontend that was asked is being started again
            return None
        return found if sorted(map(len, found.values())) == [1, 1, 2] else None

    found: dict[str, list[int]] = await until_answer(balanced, within=20)
    assert sorted(shard for shards in found.values() for shard in shards) == list(range(SHARDS))
    return found


async def terms(cluster: Cluster) -> dict[int, int]:
    rows = await cluster.fetch("SELECT shard, term FROM leases WHERE name = 'leader'")
    return {row["shard"]: row["term"] for row in rows}


async def all_answer(bots: dict[int, People], text: str) -> None:
    for shard, bot in bots.items():
        await bot.say(text, chat=PERSON + shard)
    for shard, bot in bots.items():
        await bot.answer(f"You said: {text}", chat=PERSON + shard)


def entry(cluster: Cluster, name: str) -> dict[str, Any]:
    return next(each for each in cluster.run["frontends"] if each["id"] == name)


async def test_four_shards_are_spread_over_three_frontends_and_all_bots_are_answered(
    cluster: Cluster, bots: dict[int, People]
) -> None:
    await spread(cluster)
    await all_answer(bots, "hello")


async def test_each_frontend_knows_the_terms_that_it_leads_under(cluster: Cluster) -> None:
    found = await spread(cluster)
    numbers = await terms(cluster)
    for n, member in enumerate(cluster.run["frontends"]):
        ours = {shard: numbers[shard] for shard in found[member["id"]]}
        _, ready = await cluster.api("GET", "/readyz", frontend=n)
        assert ready["checks"]["leadership"]["terms"] == {str(shard): term for shard, term in ours.items()}
        text = await cluster.text("/metrics", frontend=n)
        for shard in range(SHARDS):
            assert f'trunkline_leader_term{{shard="{shard}"}} {float(ours.get(shard, 0))}\n' in text


async def test_the_shards_of_a_dead_frontend_move_and_come_back_to_its_successor(
    cluster: Cluster, bots: dict[int, People]
) -> None:
    before, numbers = await spread(cluster), await terms(cluster)
    victim = max(before, key=lambda name: len(before[name]))
    await cluster.written(lambda: os.kill(entry(cluster, victim)["pid"], signal.SIGKILL))
    await all_answer(bots, "after a death")
    after = await spread(cluster)
    assert len(after) == len(before)
    assert set(before) - set(after) == {victim}, "its successor leads a share"
    await all_answer(bots, "after the return")
    now = await terms(cluster)
    assert all(now[shard] > numbers[shard] for shard in before[victim])


async def test_a_leader_that_stands_still_loses_its_shards_and_no_other_shard_notices(
    cluster: Cluster, bots: dict[int, People]
) -> None:
    before, numbers = await spread(cluster), await terms(cluster)
    victim = next(name for name, shards in before.items() if len(shards) == 1)
    (stopped,) = before[victim]
    pid = entry(cluster, victim)["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        others = {shard: bot for shard, bot in bots.items() if shard != stopped}
        await all_answer(others, "meanwhile")
        await all_answer({stopped: bots[stopped]}, "in the end")
        now = await terms(cluster)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert now == {**numbers, stopped: now[stopped]}, "no other term has changed"
    assert now[stopped] > numbers[stopped]
    await spread(cluster)
    await all_answer(bots, "all together")
