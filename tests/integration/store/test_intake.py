"""The read position and the messages it confirms: both or neither, and only for the one that may."""

import asyncio

import msgspec
import pytest

from services.frontend.turns.admission import admit
from shared.config.sections import Limits
from shared.domain.records import Lane
from shared.sdk.ops import Inbound, Person
from shared.store import Database, cursors, intake
from shared.store.cursors import Cursor

START = Cursor("bnd_1", 1, "")


def messages(*numbers: int, chat: str = "5001", **more: object) -> list[Inbound]:
    return [
        Inbound(chat=chat, sender=Person("5001", "Ada"), id=str(n), text=f"text {n}", direct=True)
        for n in numbers
    ]


async def claimed(store: Database, term: int) -> Cursor:
    return (await cursors.claim(store, ["bnd_1"], term)).cursors["bnd_1"]


async def cursor_row(store: Database) -> tuple[str, int]:
    row = await store.fetchrow("SELECT position, term FROM binding_cursor WHERE binding_id = 'bnd_1'")
    return row["position"], row["term"]


async def rows(store: Database) -> list[str]:
    return [row["message_key"] for row in await store.fetch("SELECT message_key FROM inbound ORDER BY id")]


async def test_a_poll_moves_the_position_and_keeps_the_messages(store: Database) -> None:
    cursor = await claimed(store, 3)
    stored = await intake.store_poll(store, cursor, term=3, position="12", messages=messages(10, 11))
    assert (stored.moved, stored.chats, stored.new, stored.duplicates) == (True, ("5001",), 2, 0)
    assert await cursor_row(store) == ("12", 3)
    assert await rows(store) == ["m:10", "m:11"]


@pytest.mark.parametrize(
    ("cursor", "term"),
    [
        (START, 2),
        (START, 4),
        (Cursor("bnd_1", 1, "7"), 3),
        (Cursor("bnd_1", 2, ""), 3),
        (Cursor("bnd_9", 1, ""), 3),
    ],
    ids=[
        "an older term",
        "a term that claimed nothing",
        "another position",
        "another account",
        "no such binding",
    ],
)
async def test_nothing_of_a_poll_is_kept_for(store: Database, cursor: Cursor, term: int) -> None:
    await store.execute("UPDATE binding_cursor SET term = 3")
    stored = await intake.store_poll(store, cursor, term=term, position="12", messages=messages(10))
    assert (stored.moved, stored.new, stored.duplicates, stored.chats) == (False, 0, 0, ())
    assert await rows(store) == []
    assert await store.fetchval("SELECT count(*) FROM lanes") == 0
    assert await cursor_row(store) == ("", 3)


async def test_what_was_stored_before_falls_out(store: Database) -> None:
    await claimed(store, 1)
    await intake.store_poll(store, START, term=1, position="11", messages=messages(10))
    again = await intake.store_poll(
        store, Cursor("bnd_1", 1, "11"), term=1, position="12", messages=messages(10, 11)
    )
    assert (again.new, again.duplicates) == (1, 1)
    assert await rows(store) == ["m:10", "m:11"]


async def test_of_two_leaders_with_the_same_poll_the_one_that_claimed_last_stores_it(
    store: Database, other: Database
) -> None:
    """Whatever the order in which they write, and although the position is the one that both polled from."""
    for round_ in range(1, 21):
        old = await claimed(store, 2 * round_)
        new = await claimed(other, 2 * round_ + 1)
        assert old == new
        stale, fresh = await asyncio.gather(
            *(
                intake.store_poll(each, old, term=term, position=str(round_), messages=messages(round_))
                for each, term in ((store, 2 * round_), (other, 2 * round_ + 1))
            )
        )
        assert (stale.moved, fresh.moved) == (False, True)
    assert await store.fetchval("SELECT count(*) FROM inbound") == 20


async def test_messages_of_another_account_are_other_messages(store: Database) -> None:
    await claimed(store, 1)
    await intake.store_poll(store, START, term=1, position="11", messages=messages(10))
    await store.execute("UPDATE binding_cursor SET account_epoch = 2, position = ''")
    again = await intake.store_poll(
        store, Cursor("bnd_1", 2, ""), term=1, position="11", messages=messages(10)
    )
    assert again.new == 1


async def test_a_message_with_a_null_character_is_kept(store: Database) -> None:
    await claimed(store, 1)
    message = Inbound(chat="5001", sender=Person("5001"), id="1", text="a\x00b", direct=True)
    stored = await intake.store_poll(store, START, term=1, position="2", messages=[message])
    assert stored.new == 1


async def test_what_is_not_addressed_is_kept_without_its_text(store: Database) -> None:
    await claimed(store, 1)
    message = Inbound(chat="-4001", sender=Person("5001"), id="1", text="among ourselves")
    await intake.store_poll(store, START, term=1, position="2", messages=[message])
    assert "ourselves" not in await store.fetchval("SELECT body::text FROM inbound")


async def test_names_that_hold_a_null_character_stop_no_poll(store: Database) -> None:
    await claimed(store, 1)
    message = Inbound(chat="5\x00001", sender=Person("5\x00001"), id="1\x00", thread="\x00", text="hi")
    stored = await intake.store_poll(store, START, term=1, position="2", messages=[message])
    assert (stored.new, stored.chats) == (1, ("5001",))
    assert await rows(store) == ["m:1"]


async def test_ids_as_long_as_they_may_be_fit_every_key(store: Database) -> None:
    """In characters that take most room, and that no compression makes shorter."""
    ids = ["".join(chr(0x20000 + (n * n * 7 + n * k) % 40000) for n in range(256)) for k in (1, 3, 5, 11)]
    assert all(len(each.encode()) == 1024 for each in ids)
    await claimed(store, 1)
    message = Inbound(chat=ids[0], sender=Person(ids[1]), id=ids[2], thread=ids[3], text="hi", direct=True)
    assert msgspec.convert(msgspec.to_builtins(message), Inbound) == message
    assert (await intake.store_poll(store, START, term=1, position="2", messages=[message])).new == 1
    async with store.transaction() as connection:
        outcomes = await admit(
            connection,
            [Lane("bnd_1", ids[0])],
            holder="f",
            limits=Limits(),
            claim=True,
            history=9,
            taken=_nobody,
        )
    assert [len(outcome.started) for outcome in outcomes.values()] == [1]


def _nobody(*_: object) -> None:
    """Nobody asks."""
