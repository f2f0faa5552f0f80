"""Messages through the whole path, beside an aiogram bot that does the same visible work and stores nothing.

    python -m benchmarks.pipeline [--rounds 3] [--seconds 10] [--people 500]

Ours: Postgres with fsync on, NATS, an owner, the Telegram add-on and two frontends, in `progress`. The peer: one
aiogram process that shows typing and `Working…`, streams the model call and edits. Both have 50 bots and 500
people with one message in flight each, on the same simulator, which validates nothing; rounds are interleaved and
medians are told. Then 20 messages a second to each: the delay from the accepted event to the visible final text.
The bars: 0.4 of the peer's rate (aim 0.6); delay minus the peer's p50 15 ms and p99 60 ms (aim 9 and 30).
"""

import argparse
import asyncio
import statistics
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvloop

from benchmarks.bots import SETTINGS, connect
from benchmarks.load import People, Round
from benchmarks.report import Figure, at_least, at_most, show
from tests.support.cluster import Cluster

BOTS, FIRST, PEER_FIRST, ECHO_FIRST = 50, 1000, 2000, 3000
STEADY_RATE, STEADY_SECONDS, WARM_SECONDS = 20.0, 15.0, 6.0


async def main(rounds: int, seconds: float, people: int) -> None:
    async with Cluster(frontends=2, durable=True, validate=False, settings=SETTINGS) as cluster:
        await connect(cluster, first=FIRST, bots=BOTS)
        address = cluster.run["simulators"]["url"]
        fsync = await cluster.fetchval("SHOW fsync")
        async with peer(address, PEER_FIRST, "answer"), peer(address, ECHO_FIRST, "echo"):
            sides = {
                "ours": People(address, first=FIRST, bots=BOTS, people=people),
                "peer": People(address, first=PEER_FIRST, bots=BOTS, people=people),
                "echo": People(address, first=ECHO_FIRST, bots=BOTS, people=people),
            }
            rates = await saturated(sides, rounds, seconds)
            delays = await steady(sides, rounds)
    show("Pipeline", figures(rates, delays, fsync))


@asynccontextmanager
async def peer(address: str, first: int, mode: str) -> AsyncIterator[None]:
    """An aiogram process with fifty bots."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.peers.bot", address, str(first), str(BOTS), mode,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


async def saturated(sides: dict[str, People], rounds: int, seconds: float) -> dict[str, list[Round]]:
    """Rounds of everybody writing as fast as they are answered; the first of each side only warms up."""
    rates: dict[str, list[Round]] = {name: [] for name in sides}
    for n in range(rounds + 1):
        for name, people in sides.items():
            async with people.present():
                result = await people.saturate(seconds if n else WARM_SECONDS)
            if n:
                rates[name].append(result)
    return rates


async def steady(sides: dict[str, People], rounds: int) -> dict[str, list[Round]]:
    delays: dict[str, list[Round]] = {"ours": [], "peer": []}
    for _ in range(rounds):
        for name, results in delays.items():
            async with sides[name].present():
                results.append(await sides[name].steady(STEADY_RATE, STEADY_SECONDS))
    return delays


def figures(rates: dict[str, list[Round]], delays: dict[str, list[Round]], fsync: str) -> list[Figure]:
    rate = {name: statistics.median(r.rate for r in results) for name, results in rates.items()}
    ratio = statistics.median(o.rate / p.rate for o, p in zip(rates["ours"], rates["peer"], strict=True))
    middle = _extra_milliseconds(delays, 0.5)
    tail = _extra_milliseconds(delays, 0.99)
    lost = sum(int(STEADY_RATE * STEADY_SECONDS) - r.answered for r in delays["ours"])
    return [
        Figure("fsync of Postgres", fsync),
        Figure("messages/s, ours", f"{rate['ours']:.0f}"),
        Figure("messages/s, aiogram with the same visible work", f"{rate['peer']:.0f}"),
        Figure("messages/s, aiogram echo", f"{rate['echo']:.0f}"),
        at_least("share of the peer's rate, median of pairs", ratio, 0.4),
        Figure("delay p50 / p99 at 20 messages/s, ours", _both(delays["ours"])),
        Figure("delay p50 / p99 at 20 messages/s, peer", _both(delays["peer"])),
        at_most("delay p50 minus the peer's", middle, 15, "ms"),
        at_most("delay p99 minus the peer's", tail, 60, "ms"),
        Figure("unanswered at 20 messages/s, ours", str(lost), "0", lost == 0),
    ]


def _extra_milliseconds(delays: dict[str, list[Round]], share: float) -> float:
    pairs = zip(delays["ours"], delays["peer"], strict=True)
    return 1000 * statistics.median(o.percentile(share) - p.percentile(share) for o, p in pairs)


def _both(rounds: list[Round]) -> str:
    middle, tail = (1000 * statistics.median(r.percentile(share) for r in rounds) for share in (0.5, 0.99))
    return f"{middle:.1f} / {tail:.1f} ms"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Messages through the whole path, beside aiogram.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--people", type=int, default=500)
    options = parser.parse_args()
    uvloop.run(main(options.rounds, options.seconds, options.people))
