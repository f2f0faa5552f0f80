"""A frontend that stops leaves nothing behind that only a sweep would find."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from shared.lifecycle import Tasks
from shared.store import Database
from tests.support.rig import Replica, Rig, rig
from tests.support.until import until_answer

#: a sweep that comes too late for every wait below
LATE = {"sweep_seconds": 60.0}
CHATS = range(5001, 5009)


def follower(path: Rig, leader: Replica) -> Replica:
    return next(replica for replica in path.replicas if replica is not leader)


@asynccontextmanager
async def nothing_is_admitted(url: str) -> AsyncIterator[None]:
    """Whoever decides on messages waits meanwhile."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE chats IN SHARE ROW EXCLUSIVE MODE")
            yield
    finally:
        await connection.close()


async def stored(database: Database, binding: str) -> bool:
    count = await database.fetchval("SELECT count(*) FROM inbound WHERE binding_id = $1", binding)
    return bool(count == len(CHATS))


async def test_messages_that_a_stopping_frontend_heard_of_are_found_by_the_others_at_once(
    database_url: str,
) -> None:
    async with rig(database_url, frontends=2, turns=LATE) as path:
        bot = await path.bot()
        stopping = follower(path, await path.leader())
        async with nothing_is_admitted(database_url):
            for chat in CHATS:
                await path.says(bot, chat, "hello")
            await until_answer(lambda: stored(path.database, bot.binding))
            await path.stop_frontend(stopping)
        await asyncio.gather(*(path.answer(bot, chat, "You said: hello") for chat in CHATS))


async def test_a_message_for_a_turn_that_ends_on_a_stopping_frontend_is_answered_elsewhere_at_once(
    database_url: str,
) -> None:
    async with rig(database_url, frontends=2, turns={**LATE, "watch_seconds": 60.0}) as path:
        bot = await path.bot()
        await path.script("first", {"text": "answer one"}, delay_ms=1500)
        await path.says(bot, 5001, "first")
        holder = await path.eventually("SELECT holder FROM turns WHERE binding_id = $1", bot.binding)
        runs = next(replica for replica in path.replicas if replica.id == holder)
        await path.eventually("SELECT count(*) = 1 FROM turns WHERE state = 'running' AND read_seq > 0")
        stop = Tasks("stop").run("frontend", path.stop_frontend(runs))
        await path.says(bot, 5001, "second")
        await path.answer(bot, 5001, "answer one")
        await path.answer(bot, 5001, "You said: second")
        await stop
        holders = await path.database.fetch("SELECT holder FROM turns ORDER BY id")
        assert [row["holder"] for row in holders] == [runs.id, path.replicas[0].id]
