"""Claims, takeovers and ends of turns, with many frontends at once."""

import asyncio
import random

import pytest

from services.frontend.turns import admission
from shared.config.sections import Limits
from shared.domain.records import Lane, Turn
from shared.sdk.ops import Inbound, Person
from shared.store import Connection, Database, cursors, deliveries, intake, requests, turns
from shared.store.turns import Closing, NewMessage

LANE = Lane("bnd_1", "5001")
LIMITS = Limits(sender_per_minute=100_000)


async def arrive(store: Database, number: int) -> None:
    message = Inbound(
        chat="5001", sender=Person("5001", "Ada"), id=str(number), text=f"text {number}", direct=True
    )
    cursor = (await cursors.claim(store, ["bnd_1"], 1)).cursors["bnd_1"]
    await intake.store_poll(store, cursor, term=1, position=str(number), messages=[message])


async def admit(store: Database, holder: str, *, claim: bool = True) -> list[Turn]:
    async with store.transaction() as connection:
        outcomes = await admission.admit(
            connection, [LANE], holder=holder, limits=LIMITS, claim=claim, history=100, taken=lambda *_: None
        )
    return [turn for turn, _ in outcomes[LANE].started]


async def end(store: Database, turn: Turn, text: str = "answer") -> turns.Head | None:
    async with store.transaction() as connection:
        await deliveries.lock_lanes(connection, [LANE])
        heads = await turns.close(connection, [Closing(turn, text, {})])
    return heads.get(turn.id)


async def claim(store: Database, holder: str) -> Turn | None:
    """A turn for the one chat there is, if it waits."""
    chat = await store.fetchval("SELECT id FROM chats")
    async with store.transaction() as connection:
        return await admission.claim(connection, chat, LANE, holder=holder)


async def covered(connection: Connection) -> bool:
    """Whether no message is left that no finished turn has read."""
    return bool(
        await connection.fetchval(
            "SELECT bool_and(turn_id IS NULL AND last_user_seq <= covered_seq) FROM chats"
        )
    )


async def test_one_of_many_frontends_claims(store: Database, other: Database) -> None:
    await arrive(store, 1)
    started = await asyncio.gather(*(admit(each, f"f{n}") for n, each in enumerate([store, other] * 4)))
    assert len([turn for each in started for turn in each]) == 1
    assert await store.fetchval("SELECT count(*) FROM messages") == 1


async def test_admission_of_a_lane_is_serial_and_keeps_the_order(store: Database, other: Database) -> None:
    for number in range(1, 41):
        await arrive(store, number)
        if number % 5 == 0:
            await asyncio.gather(*(admit(each, "f1") for each in (store, other, store)))
    kept = await store.fetch("SELECT content FROM messages ORDER BY chat_id, seq")
    assert [row["content"] for row in kept] == [f"text {n}" for n in range(1, 41)]


async def test_a_taken_over_turn_fences_its_old_holder_everywhere(store: Database) -> None:
    await arrive(store, 1)
    (turn,) = await admit(store, "f1")
    taken = await turns.take_over(store, turn, "f2")
    assert taken is not None
    assert taken.epoch == turn.epoch + 1
    assert await turns.take_over(store, turn, "f3") is None
    assert await requests.next_request(store, turn, history=10) is None
    assert await turns.add_reply(store, turn, NewMessage("assistant", "late")) is None
    assert await end(store, turn) is None
    assert await requests.next_request(store, taken, history=10) is not None
    assert await end(store, taken) is not None
    assert await end(store, taken) is None
    assert await store.fetchval("SELECT count(*) FROM messages WHERE role = 'assistant'") == 1


async def test_a_turn_is_taken_over_by_one_of_many(store: Database, other: Database) -> None:
    await arrive(store, 1)
    (turn,) = await admit(store, "f1")
    taken = await asyncio.gather(
        *(turns.take_over(each, turn, f"f{n}") for n, each in enumerate([store, other] * 4))
    )
    assert len([each for each in taken if each is not None]) == 1


async def test_running_turns_of_a_frontend_that_is_gone_are_orphans_and_those_of_its_own_are_found(
    store: Database,
) -> None:
    await arrive(store, 1)
    (turn,) = await admit(store, "gone")
    assert [orphan.id for orphan in await turns.orphans(store, 10)] == [turn.id]
    assert [t.id for t in await turns.held(store, "gone", except_ids=[], limit=9)] == [turn.id]
    assert await turns.held(store, "gone", except_ids=[turn.id], limit=9) == []


@pytest.mark.parametrize("seed", range(6))
async def test_a_message_never_slips_between_the_last_look_and_the_end(
    store: Database, other: Database, seed: int
) -> None:
    """Messages arrive while turns end: each is read by exactly one finished turn, and none is left."""
    dice = random.Random(seed)
    total = 25
    running: asyncio.Queue[Turn | None] = asyncio.Queue()

    async def pause() -> None:
        for _ in range(dice.randrange(4)):
            await asyncio.sleep(0)

    async def people() -> None:
        for number in range(1, total + 1):
            await arrive(store, number)
            await pause()
            for turn in await admit(dice.choice([store, other]), "f1"):
                running.put_nowait(turn)
        running.put_nowait(None)

    async def frontend() -> None:
        over = False
        while not over or not running.empty():
            turn = await running.get()
            if turn is None:
                over = True
                continue
            await pause()
            if dice.random() < 0.5:
                assert await requests.next_request(other, turn, history=100) is not None
            await pause()
            head = await end(dice.choice([store, other]), turn)
            assert head is not None
            if head.unread and (following := await claim(other, "f2")) is not None:
                running.put_nowait(following)

    await asyncio.gather(people(), frontend())
    while (turn := await claim(store, "f3")) is not None:
        await end(store, turn)
    assert await covered(store)
    read = await store.fetch(
        "SELECT m.content, count(t.id) AS turns FROM messages m LEFT JOIN LATERAL ("
        "SELECT t.id FROM turns t WHERE t.chat_id = m.chat_id AND t.state = 'done' AND t.read_seq >= m.seq "
        "ORDER BY t.id LIMIT 1) t ON true WHERE m.role = 'user' GROUP BY m.content"
    )
    assert len(read) == total
    assert {row["turns"] for row in read} == {1}
