"""An answer becomes planned parts while everything else goes on."""

import asyncio

from services.frontend.turns.delivery import answer_parts, planned_answer
from shared.domain.records import Turn
from shared.lifecycle import Tasks
from shared.sdk.manifest import TextDialect
from shared.store.requests import Destination

TURN = Turn(1, "cht_1", "usr_1", "agt_1", "bnd_1", 1)
PLACE = Destination(
    "bnd_1",
    "5001",
    "",
    direct=True,
    kind="telegram",
    addon="telegram",
    reply_mode="progress",
    working_id=None,
)
DIALECT = TextDialect(markup="MarkdownV2", limit=4096, unit="utf16")


async def test_a_huge_answer_is_rendered_while_others_go_on() -> None:
    text = "```\n" + "x = 1\n" * 10_000 + "```"
    rendering = Tasks("test").run(
        "render", planned_answer(text, turn=TURN, place=PLACE, dialect=DIALECT, reply_to="")
    )
    turns_of_the_loop = 0
    while not rendering.done():
        turns_of_the_loop += 1
        await asyncio.sleep(0)
    assert turns_of_the_loop > 10
    assert await rendering == answer_parts(text, turn=TURN, place=PLACE, dialect=DIALECT, reply_to="")
