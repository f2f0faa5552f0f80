"""A frontend that stops leaves nothing behind that only a sweep would find.

In each test it runs one long turn meanwhile, so that its stop is not over: the signal of its end helps nobody yet.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from shared.bus import subjects
from shared.lifecycle import Tasks
from shared.store import Database
from tests.support.rig import Bot, Rig, rig
from tests.support.until import until_answer

#: a sweep that comes too late for every wait below
LATE = {"sweep_seconds": 60.0, "watch_seconds": 60.0}
CHATS = range(5001, 5009)
#: the long turn, in milliseconds
LONG = 7000


async def begin(path: Rig, bot: Bot, chat: int, text: str, *, delay_ms: int) -> None:
    """A turn that waits for the model for so long."""
    await path.script(text, {"text": f"answer to {text}"}, delay_ms=delay_ms)
    await path.says(bot, chat, text)
    await path.eventually(
        "SELECT EXISTS (SELECT FROM turns t JOIN chats c ON c.turn_id = t.id "
        "WHERE c.platform_chat = $1 AND t.state = 'running' AND t.read_seq > 0)",
        str(chat),
    )


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
    count = await database.fetchval(
        "SELECT count(*) FROM inbound WHERE binding_id = $1 AND state = 'new'", binding
    )
    return bool(count == len(CHATS))


async def test_messages_that_a_stopping_frontend_heard_of_are_found_by_the_others_at_once(
    database_url: str,
) -> None:
    async with rig(database_url, turns=LATE) as path:
        bot, gone = await path.bot(), asyncio.Event()
        (stopping,) = path.replicas
        await begin(path, bot, 6001, "a long one", delay_ms=LONG)
        await path.add_frontend()

        async def on_gone(key: str, signal: subjects.FrontendGone) -> None:
            gone.set()

        path.owner.bus.subscribe(subjects.FRONTEND_GONE, on_gone)
        async with nothing_is_admitted(database_url):
            for chat in CHATS:
                await path.says(bot, chat, "hello")
            await until_answer(lambda: stored(path.database, bot.binding))
            stop = Tasks("stop").run("frontend", path.stop_frontend(stopping))
            await asyncio.wait_for(gone.wait(), LONG / 1000)
        await asyncio.gather(*(path.answer(bot, chat, "You said: hello") for chat in CHATS))
        assert not stop.done()
        await path.answer(bot, 6001, "answer to a long one")
        await stop


async def test_a_message_for_a_turn_that_ends_on_a_stopping_frontend_is_answered_elsewhere_at_once(
    database_url: str,
) -> None:
    async with rig(database_url, turns=LATE) as path:
        bot = await path.bot()
        (runs,) = path.replicas
        await begin(path, bot, 6001, "a long one", delay_ms=LONG)
        await begin(path, bot, 5001, "the first", delay_ms=2500)
        other = await path.add_frontend()
        stop = Tasks("stop").run("frontend", path.stop_frontend(runs))
        await path.says(bot, 5001, "second")
        await path.answer(bot, 5001, "answer to the first")
        await path.answer(bot, 5001, "You said: second")
        assert not stop.done()
        await stop
        turns = await path.database.fetch(
            "SELECT t.holder, t.takeovers FROM turns t JOIN chats c ON c.id = t.chat_id "
            "WHERE c.platform_chat = '5001' ORDER BY t.id"
        )
        given_away = (other.id, 1)
        assert [(turn["holder"], turn["takeovers"]) for turn in turns] == [(runs.id, 0), given_away]
