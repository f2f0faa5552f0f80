"""The turn at a message: one call at a time, and a bounded memory of doubt."""

import asyncio

from services.owner.messages import MOST_DOUBTFUL, MessageLocks
from shared.lifecycle import Tasks

KEY = ("bnd", "5", "41")


async def test_doubt_about_a_message_lasts_until_its_final_edit() -> None:
    locks = MessageLocks()
    async with locks.hold(KEY) as preview:
        preview.doubtful = True
    async with locks.hold(KEY) as final:
        assert final.doubtful
        final.doubtful = False
    async with locks.hold(KEY) as later:
        assert not later.doubtful


async def test_messages_in_doubt_whose_final_edit_never_comes_do_not_add_up() -> None:
    locks = MessageLocks()
    for number in range(MOST_DOUBTFUL + 1):
        async with locks.hold(("bnd", "5", str(number))) as hold:
            hold.doubtful = True
    async with locks.hold(("bnd", "5", "0")) as forgotten:
        assert not forgotten.doubtful
    async with locks.hold(("bnd", "5", str(MOST_DOUBTFUL))) as kept:
        assert kept.doubtful


async def test_a_final_edit_waits_for_the_preview_that_is_on_its_way() -> None:
    locks, order, tasks = MessageLocks(), list[str](), Tasks("test")
    entered, leave = asyncio.Event(), asyncio.Event()

    async def preview() -> None:
        async with locks.hold(KEY):
            entered.set()
            await leave.wait()
            order.append("preview")

    tasks.run("preview", preview())
    await entered.wait()
    leave.set()
    async with locks.hold(KEY):
        order.append("final")
    assert order == ["preview", "final"]
    await tasks.stop()
