"""Writes of tools: stored before they are made, made once, found again by their ID.

The probe counts every effect of its write tool on disk and hides no repetition.
"""

import asyncio
import json
from typing import Any

import pytest

from services.addons.probe.control import EffectsResult, FaultArgs, NoArgs
from shared.carrier import operations as ops
from shared.domain.errors import CallerFenced, OutcomeUnknown
from shared.domain.ids import operation_id
from shared.sdk.ops import Done, ToolCall
from tests.support.rig import Bot, Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def fault(path: Rig, **what: Any) -> None:
    await path.addon("probe").op("probe.fault", FaultArgs(call="probe_write", **what), result=Done)


async def effects(path: Rig, operation: str) -> int:
    counted = await path.addon("probe").op("probe.effects", NoArgs(), result=EffectsResult)
    return int(counted.effects.get(operation, 0))


async def turn_of(path: Rig, bot: Bot) -> int:
    """A turn that is running, because its model is slow."""
    word = f"slow {bot.binding}"
    await path.script(word, {"text": "Done"}, delay_ms=4000)
    await path.says(bot, 5001, word)
    return int(await path.eventually("SELECT id FROM turns WHERE binding_id = $1", bot.binding))


def write(path: Rig, bot: Bot, turn: int, operation: str, epoch: int = 1) -> Any:
    request = ops.ToolRequest("probe", "probe_write", {"value": "x"}, bot.binding)
    return path.carrier.call(
        ops.TOOL_WRITE, request, actor=bot.user, operation=operation, turn=turn, epoch=epoch
    )


async def test_callers_at_once_attach_to_one_write(path: Rig) -> None:
    bot = await path.bot()
    turn = await turn_of(path, bot)
    operation = operation_id(turn, 1, 0)
    results = await asyncio.gather(*(write(path, bot, turn, operation) for _ in range(20)))
    assert {result.content for result in results} == {'wrote {"value":"x"}'}
    assert (await write(path, bot, turn, operation)).content == 'wrote {"value":"x"}'
    assert await effects(path, operation) == 1


async def test_a_write_of_a_turn_that_was_taken_over_is_not_made(path: Rig) -> None:
    bot = await path.bot()
    turn = await turn_of(path, bot)
    operation = operation_id(turn, 1, 0)
    with pytest.raises(CallerFenced):
        await write(path, bot, turn, operation, epoch=9)
    assert await effects(path, operation) == 0


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_write_in_which_its_addon_died_has_one_effect(path: Rig, moment: str) -> None:
    bot = await path.bot()
    turn = await turn_of(path, bot)
    operation = operation_id(turn, 1, 0)
    await fault(path, action="kill", moment=moment)
    result = await write(path, bot, turn, operation)
    assert not result.is_error
    assert await effects(path, operation) == 1
    assert (await write(path, bot, turn, operation)).content == result.content
    assert await effects(path, operation) == 1


async def test_a_write_that_broke_off_and_may_still_happen_is_unknown(path: Rig) -> None:
    bot = await path.bot()
    turn = await turn_of(path, bot)
    operation = operation_id(turn, 1, 0)
    await fault(path, action="fail", code="outcome_unknown")
    with pytest.raises(
        OutcomeUnknown
    ):  # one life of the add-on cannot tell that a broken write stays without effect
        await write(path, bot, turn, operation)
    assert await effects(path, operation) == 0


async def test_a_write_that_the_addon_cannot_tell_about_is_unknown_for_ever(path: Rig) -> None:
    bot = await path.bot()
    turn = await turn_of(path, bot)
    operation = operation_id(turn, 1, 0)
    await path.database.execute(
        "INSERT INTO operations (id, turn_id, user_id, addon, tool, phase, arguments, state) "
        "VALUES ($1, $2, $3, 'probe', 'probe_write', 'apply', '{}', 'unknown')",
        operation,
        turn,
        bot.user,
    )
    with pytest.raises(OutcomeUnknown):
        await write(path, bot, turn, operation)
    assert await effects(path, operation) == 0


@pytest.mark.parametrize("made", [False, True])
async def test_a_write_that_an_earlier_owner_had_started_is_made_if_it_was_not(path: Rig, made: bool) -> None:
    bot = await path.bot()
    turn = await turn_of(path, bot)
    operation = operation_id(turn, 1, 0)
    if made:
        await path.addon("probe").tool("probe_write", ToolCall("apply", {"value": "x"}, operation))
    await path.database.execute(
        "INSERT INTO operations (id, turn_id, user_id, addon, tool, phase, arguments, state, owner_term) "
        "VALUES ($1, $2, $3, 'probe', 'probe_write', 'apply', '{}', 'started', 0)",
        operation,
        turn,
        bot.user,
    )
    result = await write(path, bot, turn, operation)
    assert ("state" in json.loads(result.content.removeprefix("wrote "))) is made
    assert await effects(path, operation) == 1


async def test_a_refused_write_is_recorded_as_failed(path: Rig) -> None:
    bot = await path.bot()
    turn = await turn_of(path, bot)
    operation = operation_id(turn, 1, 0)
    await fault(path, code="platform_unavailable")
    result = await write(path, bot, turn, operation)
    assert result.is_error
    stored = "SELECT state FROM operations WHERE id = $1"
    assert await path.database.fetchval(stored, operation) == "failed"
    assert await effects(path, operation) == 0


async def test_a_turn_writes_once_even_when_its_addon_dies_after_the_effect(path: Rig) -> None:
    bot = await path.bot(addons=["probe"])
    await path.script(
        "write it down", {"tool": "probe_write", "arguments": {"value": "y"}}, {"text": "It is written"}
    )
    await fault(path, action="kill", moment="after")
    await path.says(bot, 5001, "write it down")
    await path.answer(bot, 5001, "It is written", within=15)
    turn = await path.database.fetchval("SELECT id FROM turns WHERE binding_id = $1", bot.binding)
    assert await effects(path, operation_id(turn, 1, 0)) == 1


async def test_a_write_waits_for_an_addon_that_is_just_starting_again(path: Rig) -> None:
    bot = await path.bot()
    turn = await turn_of(path, bot)
    operation = operation_id(turn, 1, 0)
    await fault(path, action="fail", code="addon_not_running", times=3)
    result = await write(path, bot, turn, operation)
    assert not result.is_error
    assert await effects(path, operation) == 1


async def test_a_write_whose_addon_broke_after_the_effect_is_not_told_as_failed(path: Rig) -> None:
    bot = await path.bot()
    turn = await turn_of(path, bot)
    operation = operation_id(turn, 1, 0)
    await fault(path, action="fail", code="bug", moment="after")
    assert not (await write(path, bot, turn, operation)).is_error
    stored = "SELECT state FROM operations WHERE id = $1"
    assert await path.database.fetchval(stored, operation) == "done"
    assert await effects(path, operation) == 1
