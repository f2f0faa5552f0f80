"""Silence when a leader goes: from the fault to the first visible reaction to the next message.

    python -m benchmarks.failover [--rounds 10]

Three frontends with default leases and a model that takes its time, so that a turn is running at the fault. Then
somebody writes in that chat and somebody in an idle one; the later of the two first reactions counts.
The turn is one that the leader itself runs.
Bars: SIGKILL p95 1 s, graceful stop 0.2 s, SIGSTOP 8 s.
"""

import argparse
import asyncio
import os
import signal
import statistics
import time
from contextlib import suppress

import uvloop

from benchmarks.report import Figure, at_most, show
from tests.support.cluster import Cluster, People
from tests.support.until import until, until_answer

BARS = {signal.SIGKILL: 1.0, signal.SIGTERM: 0.2, signal.SIGSTOP: 8.0}
NAMES = {signal.SIGKILL: "SIGKILL", signal.SIGTERM: "graceful stop", signal.SIGSTOP: "SIGSTOP"}
MODEL_MS = 1500


async def main(rounds: int) -> None:
    silences: dict[signal.Signals, list[float]] = {kind: [] for kind in BARS}
    async with Cluster(frontends=3, durable=True, validate=False) as cluster:
        sim = cluster.sim
        await sim.script({"text": "slow answer"}, delay_ms=MODEL_MS, match={"contains": "slow"})
        chat = 7000
        for n in range(rounds):
            for kind, found in silences.items():
                if kind == signal.SIGSTOP and n >= max(2, rounds // 4):
                    continue
                chat += 10
                found.append(await silence(cluster, sim, chat, kind))
    show("Failover", [row for kind in BARS for row in rows(kind, silences[kind])])


async def silence(cluster: Cluster, sim: People, chat: int, kind: signal.Signals) -> float:
    """Seconds from the fault until the next messages, in an idle chat and where a turn was cut, show a reaction."""
    for place in (chat, chat + 1):
        await sim.say("hello", chat=place)
        await sim.answer("You said: hello", chat=place)
    leader = await cluster.leader()
    await run_turn_on(cluster, sim, chat, leader["id"])
    written = (cluster.data / "run.json").stat().st_mtime_ns
    calls = await seen(sim)
    os.kill(leader["pid"], kind)
    began = time.perf_counter()
    # A graceful stop cuts no turn: the one in the old chat ends as if nothing had happened.
    places = [chat + 1] if kind == signal.SIGTERM else [chat, chat + 1]
    reactions = [reaction(sim, place, calls, began) for place in places]
    later = max(await asyncio.gather(*reactions))
    # Its turn is at an end, whether it has read what was said meanwhile or not.
    await until_idle(cluster, chat)
    if kind == signal.SIGSTOP:
        # Only now may it go on: it must find itself replaced. Then it is ended, so that rounds are alike.
        os.kill(leader["pid"], signal.SIGCONT)
        os.kill(leader["pid"], signal.SIGKILL)
    await until(lambda: (cluster.data / "run.json").stat().st_mtime_ns != written, within=60)
    return later


async def run_turn_on(cluster: Cluster, sim: People, chat: int, frontend: str) -> None:
    """Ask for slow answers until the turn of one runs on this frontend."""
    while True:
        await sim.say("slow, please", chat=chat)
        await sim.wait_call("sendMessage", chat=chat, since=await seen(sim))
        holder = "SELECT t.holder FROM turns t JOIN chats c ON c.turn_id = t.id WHERE c.platform_chat = $1"
        if await cluster.fetchval(holder, str(chat)) == frontend:
            return
        await until_idle(cluster, chat)


async def until_idle(cluster: Cluster, chat: int) -> None:
    idle = "SELECT bool_and(turn_id IS NULL) FROM chats WHERE platform_chat = $1"
    await until_answer(lambda: cluster.fetchval(idle, str(chat)), within=30)


async def reaction(sim: People, chat: int, since: int, began: float) -> float:
    """Say something now; seconds from `began` until the bot does anything in this chat."""
    await sim.say("next", chat=chat)
    page = await sim.get("telegram/wait", chat=chat, since=since, timeout=30)
    if not page["found"]:
        raise SystemExit(f"nothing happened in chat {chat}")
    return time.perf_counter() - began


async def seen(sim: People) -> int:
    page = await sim.get("telegram/calls", since=10**9)
    return int(page["next"])


def rows(kind: signal.Signals, found: list[float]) -> list[Figure]:
    name = NAMES[kind]
    middle = statistics.median(found)
    tail = statistics.quantiles(found, n=20, method="inclusive")[-1] if len(found) > 1 else middle
    return [
        Figure(f"{name}: silence p50 of {len(found)}", f"{middle:.3f} s"),
        at_most(f"{name}: silence p95 of {len(found)}", tail, BARS[kind], "s", digits=3),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Silence when a leader goes.")
    parser.add_argument("--rounds", type=int, default=10)
    with suppress(KeyboardInterrupt):
        uvloop.run(main(parser.parse_args().rounds))
