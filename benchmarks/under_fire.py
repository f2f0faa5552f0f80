"""Throughput while a process is killed every five seconds, as a share of the same cluster's calm throughput.

    python -m benchmarks.under_fire [--seconds 60] [--people 60]

Three frontends, the owner and its add-on with default settings on a durable database; everybody writes again as soon as
the answer is there. The victims are taken in turn: frontends (the leader among them), the add-on, the owner. Nothing
may stay unanswered: whoever waits at the end is waited for.
"""

import argparse
import asyncio
import itertools
import os
import signal
from contextlib import suppress

import psutil
import uvloop

from benchmarks.bots import SETTINGS, connect
from benchmarks.load import People
from benchmarks.report import Figure, show
from shared.lifecycle import Tasks
from tests.support.cluster import Cluster

BOTS, FIRST_BOT = 10, 910_000
#: seconds between two kills
EVERY = 5.0


async def main(seconds: float, count: int) -> None:
    async with Cluster(frontends=3, durable=True, validate=False, settings=SETTINGS) as cluster:
        await connect(cluster, first=FIRST_BOT, bots=BOTS)
        people = People(cluster.sim.url, first=FIRST_BOT, bots=BOTS, people=count)
        async with people.present():
            await people.saturate(3.0)
            calm = await people.saturate(seconds / 2)
            tasks, kills = Tasks("fire"), [0]
            tasks.run("kill", keep_killing(cluster, kills))
            fire = await people.saturate(seconds)
            await tasks.stop()
    share = fire.rate / calm.rate if calm.rate else 0.0
    show(
        "Under fire",
        [
            Figure("messages/s, calm", f"{calm.rate:.0f}"),
            Figure(f"messages/s, a kill every {EVERY:g} s ({kills[0]} kills)", f"{fire.rate:.0f}"),
            Figure("share of the calm rate", f"{share:.2f}"),
        ],
    )


async def keep_killing(cluster: Cluster, kills: list[int]) -> None:
    for victim in itertools.cycle(("frontend 0", "frontend 1", "addon", "frontend 2", "owner")):
        with suppress(ProcessLookupError, psutil.Error, AssertionError, IndexError):
            os.kill(pid_of(cluster, victim), signal.SIGKILL)
            kills[0] += 1
        await asyncio.sleep(EVERY)


def pid_of(cluster: Cluster, victim: str) -> int:
    if victim == "owner":
        return cluster.owner_pid
    if victim == "addon":
        return cluster.addon_pid("telegram")
    return cluster.frontend_pids()[int(victim.removeprefix("frontend "))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--people", type=int, default=60)
    asked = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(asked.seconds, asked.people))
