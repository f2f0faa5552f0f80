"""`python -m tests.chaos --seeds 200`: plays seeds on racks side by side, goes on where it stopped, and reports."""

import argparse
import asyncio
import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from shared.lifecycle.points import Point
from tests.chaos import workload
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
    parser.add_argument("--racks", type=int, default=2, help="clusters side by side")
    parser.add_argument("--again", action="store_true", help="forget earlier results of the same sources")
    asked = parser.parse_args()
    if asked.seed is not None:
        return asyncio.run(_campaign([asked.seed], 1, keep=False))
    tree = sources()
    if asked.again:
        RESULTS.unlink(missing_ok=True)
    wanted = range(asked.first, asked.first + asked.seeds)
    done = {entry["seed"] for entry in _kept(tree)}
    began = time.monotonic()
    code = asyncio.run(_campaign([seed for seed in wanted if seed not in done], asked.racks, keep=True))
    entries = [entry for entry in _kept(tree) if entry["seed"] in wanted]
    print("\n" + report(entries, wall_seconds=time.monotonic() - began))
    left = unvisited(entries) if len(entries) >= len(Point) else []
    for point in left:
        print(f"no fault landed at {point} with a turn in flight")
    return code or int(bool(left) or any(entry["violations"] for entry in entries))


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


async def _campaign(seeds: list[int], racks: int, *, keep: bool) -> int:
    tree, waiting = sources(), list(reversed(seeds))
    RESULTS.parent.mkdir(exist_ok=True)

    async def work(shards: int) -> None:
        while waiting:
            async with rack(shards=shards) as made:
                await made.mended()
                bots = await workload.make_bots(made)
                for _ in range(min(FRESH_RACK, len(waiting))):
                    if not waiting:
                        return
                    entry = entry_of(await play(made, bots, waiting.pop()), tree)
                    _tell(entry)
                    if keep:
                        with RESULTS.open("a") as file:
                            file.write(json.dumps(entry) + "\n")

    try:
        async with asyncio.TaskGroup() as group:
            for number in range(min(racks, len(seeds))):
                group.create_task(work(1 + 2 * (number % 2)))
    except* Exception as problems:
        for problem in problems.exceptions:
            print(f"the harness failed: {problem!r}", file=sys.stderr)
        raise
    return 0


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
