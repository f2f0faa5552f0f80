"""Silence while all frontends are restarted one after the other, under a steady load over many chats.

    python -m benchmarks.rolling [--rounds 3] [--people 60]

Three frontends with default settings and a model that takes half a second, so that turns run on whichever stops. The
people are spread over four bots, and each has one message in flight. Silence is the time from an accepted message to the first API call for its chat.
A round stops every frontend once, each when the one before has been replaced. The bar: at most 0.5 s, for every message.
"""

import argparse
import asyncio
import os
import random
import signal
import statistics
import time
from contextlib import suppress
from dataclasses import dataclass, field

import uvloop

from benchmarks.report import Figure, at_most, show
from shared.lifecycle import Tasks
from tests.support.cluster import Cluster, People

BAR = 0.5
MODEL_MS = 500
#: a bot may make some thirty calls a second, and a message takes three
BOTS = 4
FIRST_CHAT = 50_000
#: seconds between an answer and the next message of a person, from and to
PAUSE = (1.5, 3.5)
#: messages that one person writes at most
MOST = 200
#: seconds of load before the first stop and after each replacement
SETTLE = 3.0


@dataclass(slots=True)
class Load:
    """People who write again soon after each answer; `posted` are chat and time of what was accepted."""

    posted: list[tuple[int, float]] = field(default_factory=list)
    over: bool = False

    async def person(self, bot: People, chat: int) -> None:
        count = 0
        while not self.over and count < MOST:
            await asyncio.sleep(random.uniform(*PAUSE))
            await bot.say(f"number {count}.", chat=chat)
            self.posted.append((chat, time.time()))
            await bot.answer(f"answer {count}.", chat=chat, timeout=60)
            count += 1


async def main(rounds: int, people: int) -> None:
    settings = {"TRUNKLINE_LIMITS_SENDER_PER_MINUTE": "1000"}
    async with Cluster(frontends=3, durable=True, validate=False, settings=settings) as cluster:
        for n in range(MOST):
            await cluster.sim.script(
                {"text": f"answer {n}."}, match={"contains": f"number {n}."}, delay_ms=MODEL_MS
            )
        chats = list(range(FIRST_CHAT, FIRST_CHAT + people))
        bots = [await made(cluster, n, chats) for n in range(BOTS)]
        load, tasks = Load(), Tasks("people")
        loads = [tasks.run(f"person {chat}", load.person(bots[chat % BOTS], chat)) for chat in chats]
        await asyncio.sleep(SETTLE)
        began = time.time()
        for _ in range(rounds):
            await restart_all(cluster)
        seconds = time.time() - began
        load.over = True
        await asyncio.gather(*loads)
        found = await silences(cluster.sim, load.posted)
    report(found, seconds, rounds)


async def made(cluster: Cluster, n: int, chats: list[int]) -> People:
    """A bot that these people may write to."""
    token = f"{9000 + n}:secret-of-a-bot-under-load-{n}"
    body = {"kind": "telegram", "name": f"Bot {n}", "token": token, "enabled": True}
    body |= {"agent_id": cluster.run["demo"]["agent_id"], "allow": [str(chat) for chat in chats]}
    status, answer = await cluster.api("POST", "/api/chats/connectors", json=body)
    if status >= 300:
        raise SystemExit(answer)
    return cluster.people(token)


async def restart_all(cluster: Cluster) -> None:
    for name in [entry["id"] for entry in cluster.run["frontends"]]:
        pid = next(entry["pid"] for entry in cluster.run["frontends"] if entry["id"] == name)
        await cluster.written(lambda pid=pid: os.kill(pid, signal.SIGTERM), within=60)  # type: ignore[misc]
        await asyncio.sleep(SETTLE)


async def silences(sim: People, posted: list[tuple[int, float]]) -> list[float]:
    """Seconds from each accepted message to the first call for its chat that came after it."""
    at: dict[int, list[float]] = {}
    for call in await sim.calls():
        if "chat" in call:
            at.setdefault(call["chat"], []).append(call["at"])
    return [next(when for when in at[chat] if when >= moment) - moment for chat, moment in posted]


def report(found: list[float], seconds: float, rounds: int) -> None:
    tail = statistics.quantiles(found, n=20, method="inclusive")[-1]
    show(
        "Rolling restart",
        [
            Figure("messages, and how many a second", f"{len(found)}, {len(found) / seconds:.0f}"),
            Figure("frontends restarted", str(3 * rounds)),
            Figure("silence p50", f"{statistics.median(found):.3f} s"),
            Figure("silence p95", f"{tail:.3f} s"),
            at_most("silence, longest", max(found), BAR, "s", digits=3),
        ],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Silence in a rolling restart.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--people", type=int, default=60)
    given = parser.parse_args()
    with suppress(KeyboardInterrupt):
        uvloop.run(main(given.rounds, given.people))
