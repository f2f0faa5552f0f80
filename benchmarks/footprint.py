"""How soon a cluster is ready, and what its processes hold in memory when idle.

    python -m benchmarks.footprint [--rounds 5]

On a warm folder: `up --frontends 1` ready within 4 s, `up --demo --frontends 2` within 6 s. Resident memory at most:
a frontend 115 MB, the owner 95 MB, an add-on 60 MB; the proportional share (PSS) is told as well.
"""

import argparse
import asyncio
import statistics
import time

import psutil
import uvloop

from benchmarks.report import Figure, at_most, show
from tests.support.cluster import Cluster

IDLE_SECONDS = 5.0
MB = 1024 * 1024


async def main(rounds: int) -> None:
    plain = await ready_seconds(rounds, demo=False, frontends=1)
    demo = await ready_seconds(rounds, demo=True, frontends=2)
    figures = [
        at_most(f"up --frontends 1 ready, median of {rounds}", statistics.median(plain), 4.0, "s", digits=2),
        at_most(
            f"up --demo --frontends 2 ready, median of {rounds}", statistics.median(demo), 6.0, "s", digits=2
        ),
    ]
    show("Footprint", figures + await memory())


async def ready_seconds(rounds: int, *, demo: bool, frontends: int) -> list[float]:
    """Seconds from the command to a complete run.json; the first start makes the folder and does not count."""
    found = []
    async with Cluster(frontends=frontends, demo=demo, durable=True, validate=False) as cluster:
        for _ in range(rounds):
            await cluster.stop()
            began = time.perf_counter()
            await cluster.start()
            found.append(time.perf_counter() - began)
    return found


async def memory() -> list[Figure]:
    async with Cluster(frontends=2, durable=True, validate=False) as cluster:
        await cluster.sim.say("hello")
        await cluster.sim.answer("You said: hello")
        await asyncio.sleep(IDLE_SECONDS)
        parts = {
            "frontend": (cluster.frontend_pids()[0], 115),
            "owner": (cluster.owner_pid, 95),
            "add-on (telegram)": (cluster.addon_pid("telegram"), 60),
        }
        figures = []
        for name, (pid, bar) in parts.items():
            held = psutil.Process(pid).memory_full_info()
            figures.append(at_most(f"{name}: resident", held.rss / MB, bar, "MB"))
            figures.append(Figure(f"{name}: proportional share", f"{held.pss / MB:.1f} MB"))
        return figures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Start-up time and memory.")
    parser.add_argument("--rounds", type=int, default=5)
    uvloop.run(main(parser.parse_args().rounds))
