"""`python -m tests.chaos --seeds 200`: plays seeds on racks side by side, goes on where it stopped, and reports."""

import argparse
import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from shared.lifecycle.points import Point
from tests.chaos import workload
from tests.chaos.faults import ANYTIME, Fault
from tests.chaos.rack import rack
from tests.chaos.report import Entry, entry_of, report, unvisited
from tests.chaos.seed import play

ROOT = Path(__file__).parent.parent.parent
RESULTS = ROOT / ".chaos" / "results.jsonl"
#: seeds after which a rack is made anew, so that its tables stay small
FRESH_RACK = 50


def main() -> int:
    """0 when no seed broke a promise and every point was struck with a turn in flight."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument(
        "--seeds", type=int, default=200, help="how many seeds there are to be, from --first on"
    )
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int, help="play this one seed again and show it")
    parser.add_argument("--alone", type=int, help="each kind of fault so often, with no other one near")
    parser.add_argument("--racks", type=int, default=2, help="clusters side by side")
    parser.add_argument("--again", action="store_true", help="forget all earlier results")
    asked = parser.parse_args()
    try:
        if asked.seed is not None:
            return _again(asked.seed)
        return _run(asked) if asked.alone is None else _run_alone(asked)
    except KeyboardInterrupt:
        print("stopped; what was played is kept, and the same command goes on")
        return 130


def _again(seed: int) -> int:
    """One seed as it was played; when its parts are struck to the millisecond is not in its number."""
    played = asyncio.run(_campaign([seed], 1))
    return int(any(entry["violations"] for entry in played))


def _run_alone(asked: argparse.Namespace) -> int:
    """Every kind of fault by itself, for the silence after it; nothing of it is kept."""
    began = time.monotonic()
    kinds = list(dict.fromkeys(ANYTIME)) * asked.alone
    seeds = {asked.first + n: [Fault(act, target, at=1.0)] for n, (act, target) in enumerate(kinds)}
    played = asyncio.run(_campaign(list(seeds), asked.racks, planned=seeds))
    print("\n" + report(played, wall_seconds=time.monotonic() - began))
    return int(any(entry["violations"] for entry in played))


def _run(asked: argparse.Namespace) -> int:
    tree, began = sources(), time.monotonic()
    if asked.again:
        RESULTS.unlink(missing_ok=True)
    wanted = range(asked.first, asked.first + asked.seeds)
    done = {entry["seed"] for entry in _kept(tree)}
    if found := done & set(wanted):
        print(f"{len(found)} of {len(wanted)} seeds are played already")
    asyncio.run(_campaign([seed for seed in wanted if seed not in done], asked.racks, tree))
    entries = [entry for entry in _kept(tree) if entry["seed"] in wanted]
    print("\n" + report(entries, wall_seconds=time.monotonic() - began))
    left = unvisited(entries) if len(entries) >= len(Point) else []
    for point in left:
        print(f"no fault landed at {point} with a turn in flight")
    return int(bool(left) or any(entry["violations"] for entry in entries))


def sources() -> str:
    """Names the sources that a result belongs to: everything that runs, and the harness."""
    digest = hashlib.sha256()
    for folder in ("services", "shared", "tests/chaos"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".sql", ".json"):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _kept(tree: str) -> Iterator[Entry]:
    if RESULTS.exists():
        for line in RESULTS.read_text().splitlines():
            entry: Entry = json.loads(line)
            if entry["tree"] == tree:
                yield entry


def shards_of(seed: int) -> int:
    """In how many shards the bots of a seed are led."""
    return 3 if seed % 2 else 1


async def _campaign(
    seeds: list[int], racks: int, tree: str = "", planned: Mapping[int, Sequence[Fault]] | None = None
) -> list[Entry]:
    """Play seeds on racks side by side, with their own faults or those that are planned.

    Results are kept under `tree`, the name of the sources, where it is given.
    """
    played: list[Entry] = []
    faults = planned or {}
    waiting = {shards: [s for s in reversed(seeds) if shards_of(s) == shards] for shards in (1, 3)}

    async def work(shards: int) -> None:
        while waiting[shards]:
            async with rack(shards=shards) as made:
                await made.mended()
                bots = await workload.make_bots(made)
                for _ in range(FRESH_RACK):
                    if waiting[shards]:
                        seed = waiting[shards].pop()
                        played.append(entry_of(await play(made, bots, seed, faults.get(seed)), tree))
                        _tell(played[-1])
                        _keep(played[-1])

    async def work_all(kinds: Sequence[int]) -> None:
        for shards in kinds:
            await work(shards)

    async with asyncio.TaskGroup() as group:
        for number in range(racks):
            group.create_task(work_all((3, 1) if number % 2 else (1, 3)))
    return played


def _keep(entry: Entry) -> None:
    if entry["tree"]:
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a") as file:
            file.write(json.dumps(entry) + "\n")


def _tell(entry: Entry) -> None:
    faults = "; ".join(
        f"{f['kind']}{' at ' + f['point'] if f['point'] else ''}{'' if f['in_flight'] else ' (idle)'}"
        for f in entry["faults"]
    )
    verdict = "ok  " if not entry["violations"] else "FAIL"
    print(
        f"{verdict} seed {entry['seed']:5} {entry['seconds']:5.1f} s {entry['answers']:3} answers  {faults}",
        flush=True,
    )
    for violation in entry["violations"]:
        print(violation)
    if entry["violations"]:
        print(f"     again: python -m tests.chaos --seed {entry['seed']}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
