"""What is known of the links: who may write it, and what it says to everybody."""

import asyncio

import pytest

from services.frontend.leader.liveness import Bookkeeper, Link
from services.owner.links import LinkBook
from shared.sdk.ops import Inbound, Person
from shared.store import Database, cursors, intake, liveness
from shared.store.liveness import Liveness, Seen
from tests.support.until import until_answer

LIMIT = 45.0
MESSAGE = Inbound(chat="5001", sender=Person("5001"), id="1", text="hi", direct=True)


@pytest.fixture
async def linked(store: Database) -> Database:
    """The binding has a token, was saved an hour ago, and is claimed by term 3."""
    await store.execute(
        "INSERT INTO binding_secrets (binding_id, name, sealed) VALUES ('bnd_1', 'token', 'x')"
    )
    await store.execute("UPDATE bindings SET updated_at = now() - interval '1 hour'")
    await cursors.claim(store, ["bnd_1"], 3)
    return store


async def link(store: Database) -> Liveness:
    return (await liveness.of_user(store, "usr_1", LIMIT))["bnd_1"]


def seen(polled: float | None = None, heard: float | None = None, failure: str = "", more: int = 0) -> Seen:
    return Seen("bnd_1", polled, heard, failure, 7.0 if failure else None, None, more)


async def test_a_completed_poll_makes_a_link_listen_and_silence_makes_it_deaf(linked: Database) -> None:
    assert (await link(linked)).state == "deaf"
    assert await liveness.note(linked, 3, [seen(polled=1.0, heard=1.0)]) == ["bnd_1"]
    assert (await link(linked)).state == "listening"
    await liveness.note(linked, 3, [seen(polled=LIMIT + 1, heard=LIMIT + 1)])
    found = await link(linked)
    assert (found.state, found.deaf_since) == ("deaf", found.polled_at)


async def test_a_link_starts_after_a_save_and_is_deaf_if_nothing_comes_of_it(linked: Database) -> None:
    await liveness.note(linked, 3, [seen(polled=LIMIT + 1)])
    await linked.execute("UPDATE bindings SET updated_at = now()")
    assert (await link(linked)).state == "starting"
    await linked.execute("UPDATE bindings SET updated_at = now() - interval '46 seconds'")
    assert (await link(linked)).state == "deaf"


async def test_polls_of_what_is_kept_here_do_not_hide_a_silent_link(linked: Database) -> None:
    """As with an add-on that keeps links of its own: its polls read what is stored already."""
    await liveness.note(linked, 3, [seen(polled=1.0)])
    assert (await link(linked)).state == "listening"
    await liveness.heard(linked, "telegram", {"bnd_1": LIMIT + 1})
    assert (await link(linked)).state == "deaf"
    await liveness.heard(linked, "telegram", {"bnd_1": 2.0})
    assert (await link(linked)).state == "listening"


async def test_a_link_whose_platform_asked_to_wait_is_not_deaf_before_its_silence_after_that(
    linked: Database,
) -> None:
    silent, platform = LIMIT + 30, "platform_limited"
    held = Seen("bnd_1", silent, silent, platform, silent, 20.0, 0)
    await liveness.note(linked, 3, [held])
    assert (await link(linked)).state == "waiting"
    assert (await liveness.summary(linked, LIMIT)).deaf == 0
    await linked.execute(
        "UPDATE binding_cursor SET held_until = now() - make_interval(secs => $1)", LIMIT - 5
    )
    assert (await link(linked)).state == "listening"
    await linked.execute(
        "UPDATE binding_cursor SET held_until = now() - make_interval(secs => $1)", LIMIT + 1
    )
    assert (await link(linked)).state == "deaf"
    await liveness.note(linked, 3, [seen(silent, silent)])
    assert await linked.fetchval("SELECT held_until IS NULL FROM binding_cursor")


async def test_only_the_term_that_claimed_a_binding_says_how_it_is(linked: Database) -> None:
    for term in (2, 4):
        assert await liveness.note(linked, term, [seen(polled=1.0, failure="bug")]) == []
    found = await link(linked)
    assert (found.polled_at, found.failure) == (None, "")


async def test_an_add_on_tells_of_its_own_bindings_only_and_nothing_makes_time_go_back(
    linked: Database,
) -> None:
    assert await liveness.heard(linked, "discord", {"bnd_1": 1.0}) == []
    assert await liveness.heard(linked, "telegram", {"bnd_1": 1.0, "bnd_gone": 1.0}) == ["bnd_1"]
    before = (await link(linked)).heard_at
    await liveness.heard(linked, "telegram", {"bnd_1": 30.0})
    assert (await link(linked)).heard_at == before


async def test_what_is_being_written_is_left_for_the_next_time(linked: Database, other: Database) -> None:
    async with linked.transaction() as connection:
        assert await cursors.hold(connection, "bnd_1", 3)
        assert await liveness.note(other, 3, [seen(polled=1.0)]) == []
    assert await liveness.note(other, 3, [seen(polled=1.0)]) == ["bnd_1"]


async def test_a_failure_stays_with_its_time_until_it_is_over_and_duplicates_add_up(linked: Database) -> None:
    await liveness.note(linked, 3, [seen(failure="conflict", more=2)])
    await liveness.note(linked, 3, [seen(failure="conflict", more=3)])
    found = await link(linked)
    assert (found.failure, found.duplicates) == ("conflict", 5)
    assert found.failing_since is not None
    await liveness.note(linked, 3, [seen(polled=0.0)])
    found = await link(linked)
    assert (found.failure, found.failing_since) == ("", None)


async def test_the_books_write_only_what_changed_and_try_again_what_was_left(linked: Database) -> None:
    now = 1000.0
    books = Bookkeeper(linked, 3, clock=lambda: now)
    noted = Link()
    await books.write({"bnd_1": noted})
    assert (await link(linked)).polled_at is None
    noted.completed(now - 5, heard=True)
    noted.duplicates = 4
    async with linked.transaction() as connection:
        await cursors.hold(connection, "bnd_1", 3)
        await books.write({"bnd_1": noted})
    assert noted.duplicates == 4
    await books.write({"bnd_1": noted})
    assert (noted.duplicates, (await link(linked)).duplicates) == (0, 4)
    await linked.execute("UPDATE binding_cursor SET polled_at = NULL")
    await books.write({"bnd_1": noted})
    assert (await link(linked)).polled_at is None
    noted.failed("deadline", now)
    await books.write({"bnd_1": noted})
    assert (await link(linked)).failure == "deadline"


async def test_the_owner_stores_what_add_ons_say_of_their_links(linked: Database) -> None:
    heard = {"telegram": {"bnd_1": 990.0}}
    book = LinkBook(linked, lambda: heard, note_seconds=0.01, clock=lambda: 1000.0)
    await book.start()
    try:
        await until_answer(
            lambda: linked.fetchval("SELECT heard_at < now() - interval '9 seconds' FROM binding_cursor")
        )
        heard["telegram"]["bnd_1"] = 1000.0
        await until_answer(
            lambda: linked.fetchval("SELECT heard_at > now() - interval '9 seconds' FROM binding_cursor")
        )
    finally:
        await book.stop()


async def test_a_pushed_message_is_a_sign_of_life(linked: Database) -> None:
    await intake.store_pushed(linked, "bnd_1", MESSAGE)
    assert (await link(linked)).heard_at is not None


async def test_the_age_of_what_waits_is_shown(linked: Database) -> None:
    assert (await link(linked)).oldest_waiting is None
    await intake.store_pushed(linked, "bnd_1", MESSAGE)
    await linked.execute("UPDATE inbound SET received_at = now() - interval '1 minute'")
    assert ((await link(linked)).oldest_waiting or 0) >= 60


async def test_the_summary_shows_the_three_ages_of_the_worst(linked: Database) -> None:
    await liveness.note(linked, 3, [seen(polled=20.0, heard=10.0)])
    await intake.store_pushed(linked, "bnd_1", MESSAGE)
    await linked.execute("UPDATE binding_cursor SET heard_at = now() - interval '10 seconds'")
    await linked.execute("UPDATE inbound SET received_at = now() - interval '30 seconds'")
    await linked.execute(
        "INSERT INTO bindings (id, user_id, kind, name, enabled, updated_at) "
        "VALUES ('idle', 'usr_1', 'telegram', 'Bot', true, now() - interval '40 seconds')"
    )
    await linked.execute("INSERT INTO binding_cursor (binding_id) VALUES ('idle')")
    await linked.execute(
        "INSERT INTO binding_secrets (binding_id, name, sealed) VALUES ('idle', 'token', 'x')"
    )
    found = await liveness.summary(linked, LIMIT)
    first, second = found.worst
    ages = (first.last_poll, first.last_frame, first.oldest_waiting)
    assert (first.id, first.state) == ("bnd_1", "listening"), "what waits comes before what is silent"
    assert [round(age or 0, -1) for age in ages] == [20, 10, 30]
    assert (second.id, second.state) == ("idle", "starting")
    assert (second.last_poll, second.last_frame, second.oldest_waiting) == (None, None, None)
    assert [round(age, -1) for age in (found.oldest_poll, found.oldest_frame)] == [40, 10]


async def test_the_summary_counts_the_deaf_and_names_the_worst_ten(linked: Database) -> None:
    await liveness.note(linked, 3, [seen(polled=1.0)])
    await linked.execute(
        "INSERT INTO bindings (id, user_id, kind, name, enabled, updated_at) SELECT 'more_' || n, 'usr_1', 'telegram', "
        "'Bot', n <= 12, now() - make_interval(mins => n) FROM generate_series(1, 14) n"
    )
    await linked.execute(
        "INSERT INTO binding_cursor (binding_id) SELECT id FROM bindings WHERE id <> 'bnd_1'"
    )
    await linked.execute(
        "INSERT INTO binding_secrets (binding_id, name, sealed) SELECT id, 'token', 'x' FROM bindings "
        "WHERE id NOT IN ('bnd_1', 'more_12')"
    )
    found = await liveness.summary(linked, LIMIT)
    assert found.deaf == 11
    assert [each.id for each in found.worst] == [f"more_{n}" for n in range(11, 1, -1)]
    assert 11 * 60 <= found.oldest_poll < 11 * 60 + 30


async def test_two_leaders_that_note_everything_at_once_do_not_stop_each_other(
    linked: Database, other: Database
) -> None:
    for _ in range(20):
        noted, claims = await asyncio.gather(
            liveness.note(linked, 3, [seen(polled=1.0)]), cursors.claim(other, ["bnd_1"], 3)
        )
        assert len(noted) <= 1
        assert claims.cursors
