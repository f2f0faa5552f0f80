"""The instants between two effects, by name, so that a test can make a process die or stop exactly there.

A message goes through six steps (architecture, section 4); each has a point before and after it, and the steps with
an effect outside have more. Without a gate, as in every installation, a point costs a comparison and does nothing.

A gate is a Unix socket of a test. Each process says hello to it and hears which points are armed. What reaches an
armed point says so and waits for the word to go on; that the gate has gone away is such a word.
"""

import asyncio
import json
import os
from collections import Counter
from enum import StrEnum
from typing import Any

from shared.lifecycle.tasks import Tasks


class Point(StrEnum):
    """`<step>.<instant>`, in the order in which a message meets them."""

    POLL_BEFORE = "poll.before"  # leader: the poll is about to leave
    POLL_AFTER = "poll.after"  # owner: the add-on has answered with messages, the leader has not heard them
    INTAKE_BEFORE = "intake.before"  # leader: messages have come, nothing is stored
    INTAKE_AFTER = "intake.after"  # leader: position and messages are committed, nobody was told
    ADMISSION_BEFORE = "admission.before"  # frontend: a lane is about to be decided on
    ADMISSION_AFTER = "admission.after"  # frontend: decisions are written and not committed
    CLAIM_BEFORE = "claim.before"  # frontend: a chat is about to be claimed, in the same transaction
    CLAIM_AFTER = "claim.after"  # frontend: the claim is committed, the turn does not run yet
    TURN_BEFORE = "turn.before"  # frontend: the model is about to be asked
    TURN_AFTER = "turn.after"  # frontend: the answer is complete, nothing of it is stored
    TOOL_BEFORE = "tool.before"  # owner: a write is in the ledger and was not made
    TOOL_AFTER = "tool.after"  # owner: a write was made, its outcome is not recorded
    TOOL_TOLD = "tool.told"  # frontend: a tool has answered, nothing of it is in the transcript
    PREVIEW_BEFORE = "preview.before"  # owner: a preview is about to leave
    PREVIEW_AFTER = "preview.after"  # owner: the platform has shown it
    DELIVERY_PLANNED = "delivery.planned"  # frontend: turn closed and parts planned, the owner was not told
    DELIVERY_BEFORE = "delivery.before"  # owner: a part is marked as `sending` and has not left
    DELIVERY_AFTER = "delivery.after"  # owner: the platform has answered, the outcome is not recorded
    DELIVERY_RECORDED = "delivery.recorded"  # owner: the outcome is committed, the lane has not gone on


class Gate:
    """The line of one process to a test. A Service."""

    def __init__(self, path: str, name: str) -> None:
        self._path = path
        self._name = name
        self._tasks = Tasks("points")
        self._armed: Counter[str] = Counter()
        self._waiting: list[asyncio.Future[None]] = []
        self._writer: asyncio.StreamWriter | None = None

    async def start(self) -> None:
        global _gate  # noqa: PLW0603 - one process, one gate
        reader, self._writer = await asyncio.open_unix_connection(self._path)
        self._say(hello=self._name, pid=os.getpid())
        self._tasks.run("listen", self._listen(reader))
        _gate = self

    async def stop(self) -> None:
        global _gate  # noqa: PLW0603
        _gate = None
        await self._tasks.stop()
        self._let_go()
        if self._writer is not None:
            self._writer.close()

    async def reached(self, point: Point) -> None:
        if not self._armed[point]:
            return
        self._armed[point] -= 1
        word = asyncio.get_running_loop().create_future()
        self._waiting.append(word)
        self._say(reached=point)
        await word

    def _say(self, **words: Any) -> None:
        if self._writer is not None:
            self._writer.write(json.dumps(words).encode() + b"\n")

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """`{"arm": {point: times}}` replaces what is armed; `{"go": true}` lets go whatever waits."""
        try:
            while line := await reader.readline():
                word = json.loads(line)
                if "arm" in word:
                    self._armed = Counter(word["arm"])
                if word.get("go"):
                    self._let_go()
        except ConnectionError:
            pass
        finally:
            self._armed.clear()
            self._let_go()

    def _let_go(self) -> None:
        waiting, self._waiting = self._waiting, []
        for word in waiting:
            if not word.done():
                word.set_result(None)


_gate: Gate | None = None


async def reached(point: Point) -> None:
    """Say that this instant has come; returns at once unless a test has armed it."""
    if _gate is not None:
        await _gate.reached(point)


def gates(path: str, name: str) -> list[Gate]:
    """The gate of a process called `name`, where a test has set one."""
    return [Gate(path, name)] if path else []
