"""One seed: people write, parts die, everything is mended, and the checker decides."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.chaos import evidence, faults, workload
from tests.chaos.checker import check
from tests.chaos.evidence import Before, Evidence
from tests.chaos.faults import Fault, Landed
from tests.chaos.history import Violation
from tests.chaos.rack import Rack
from tests.chaos.workload import Bot, Step

#: seconds that everything gets to come to rest after the last fault was mended
REST_SECONDS = 12.0
#: seconds that people and faults get
LONGEST = 120.0
#: seconds before and after a fault in which another one would have its part in the silence
ALONE = 2.0


@dataclass(slots=True)
class Result:
    """What a seed has shown. `silences` are (kind of fault, seconds), the longest of each fault."""

    seed: int
    seconds: float
    messages: int
    answers: int
    clean: int
    landed: list[Landed]
    violations: list[Violation]
    silences: list[tuple[str, float]] = field(default_factory=list)


def promises_held(result: Result) -> None:
    """Fail with every violation and its history."""
    found = "\n".join(str(violation) for violation in result.violations)
    assert not result.violations, f"seed {result.seed}\n{found}"
    assert result.answers > 0, f"seed {result.seed}: nobody was answered"


async def play(rack: Rack, bots: list[Bot], seed: int, planned: Sequence[Fault] | None = None) -> Result:
    """Play a seed, with its own faults or those that are given."""
    await rack.mended()
    began = time.monotonic()
    steps = workload.plan(seed, bots)
    start = await evidence.before(rack)
    landed: list[Landed] = []
    try:
        happening = [
            faults.inject(rack, fault, landed)
            for fault in (faults.plan(seed) if planned is None else planned)
        ]
        async with asyncio.timeout(LONGEST):
            await _all([_people(rack, steps), *happening])
    finally:
        await _mend(rack)
    await rest(rack, steps)
    found = await _look(rack, seed, steps, start, landed)
    answers, clean = _answers(found)
    return Result(
        seed,
        time.monotonic() - began,
        len(steps),
        answers,
        clean,
        landed,
        check(found),
        await _silences(rack, start, found, landed),
    )


async def _people(rack: Rack, steps: Sequence[Step]) -> None:
    began = time.monotonic()
    for step in steps:
        await asyncio.sleep(max(0.0, began + step.at - time.monotonic()))
        await workload.say(rack, step)


async def _mend(rack: Rack) -> None:
    rack.gate.disarm()
    rack.wake()
    for relay in rack.relays.values():
        relay.thaw()
    for platform in ("telegram", "model"):
        await rack.sim.delete(f"{platform}/faults")


async def rest(rack: Rack, steps: Sequence[Step]) -> None:
    """Wait until nothing of these messages is on its way, but not for ever: what is left is for the checker."""
    bindings = sorted({step.bot.binding for step in steps})
    chats = sorted({str(step.chat) for step in steps})
    give_up = time.monotonic() + REST_SECONDS
    while time.monotonic() < give_up:
        if await rack.fetchval(_AT_REST, bindings, chats, len(steps)):
            return
        await asyncio.sleep(0.05)


_AT_REST = """
SELECT count(*) >= $3 AND bool_and(i.state <> 'new')
  AND NOT EXISTS (SELECT FROM deliveries WHERE binding_id = ANY($1::text[]) AND platform_chat = ANY($2::text[])
    AND state IN ('planned', 'sending'))
  AND NOT EXISTS (SELECT FROM chats WHERE binding_id = ANY($1::text[]) AND platform_chat = ANY($2::text[])
    AND (turn_id IS NOT NULL OR last_user_seq > covered_seq))
FROM inbound i WHERE i.binding_id = ANY($1::text[]) AND i.platform_chat = ANY($2::text[])
"""


async def _look(
    rack: Rack, seed: int, steps: Sequence[Step], start: Before, landed: list[Landed]
) -> Evidence:
    await rack.mended()
    await rack.sim.delete("model/script")
    return await evidence.collect(rack, seed, steps, start, [one.event() for one in landed])


def _answers(found: Evidence) -> tuple[int, int]:
    """Answers, and those of them without any doubtful step (a working message whose ID was lost is one)."""
    turns = [turn["id"] for chat in found.chats for turn in chat.turns]
    doubtful = {
        row["turn_id"]
        for chat in found.chats
        for row in chat.deliveries
        if row["state"] in ("unknown", "failed")
    }
    return len(turns), len([turn for turn in turns if turn not in doubtful])


async def _silences(
    rack: Rack, start: Before, found: Evidence, landed: list[Landed]
) -> list[tuple[str, float]]:
    """For each fault the longest time that a chat with an open message saw no sign of the bot."""
    acts: dict[int, list[float]] = {}
    for call in await rack.sim.calls(since=start.telegram):
        if call.get("chat") is not None and call["status"] == 200:
            acts.setdefault(call["chat"], []).append(call["at"])
    return [(one.fault.kind, _silence(found, acts, one)) for one in landed if _alone(one, landed)]


def _alone(one: Landed, landed: Sequence[Landed]) -> bool:
    """Whether the silence after a fault is of its own making: no other one was near."""
    return all(
        other is one or other.at > one.until + ALONE or other.until < one.at - ALONE for other in landed
    )


def _silence(found: Evidence, acts: dict[int, list[float]], one: Landed) -> float:
    longest = 0.0
    for chat in found.chats:
        signs = sorted(acts.get(int(chat.id), []))
        answered = [word for word in chat.said if word.expected == "answered"]
        texts = {step.text for step in answered}
        for shown in chat.seen:
            if shown.from_bot or shown.text not in texts or shown.at > one.until + ALONE:
                continue
            begin = max(shown.at, one.at)
            done = next((at for at in signs if at >= begin), None)
            before = any(shown.at <= at < one.at for at in signs)
            if done is not None and not (shown.at < one.at and before):
                longest = max(longest, done - begin)
    return longest


async def _all(works: Sequence[Awaitable[Any]]) -> None:
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(_coroutine(work))


async def _coroutine(work: Awaitable[Any]) -> None:
    await work
