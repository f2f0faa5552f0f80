"""What a campaign has shown, in figures and in words."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from shared.lifecycle.points import Point

#: seconds that a seed should take at most; a busy machine takes longer
LONGEST = 15.0
#: one seed as it is kept in the file of results
Entry = dict[str, Any]


def entry_of(result: Any, tree: str) -> Entry:
    """A seed's result as plain data; `tree` names the sources that it ran with."""
    return {
        "seed": result.seed,
        "tree": tree,
        "seconds": round(result.seconds, 2),
        "messages": result.messages,
        "answers": result.answers,
        "clean": result.clean,
        "faults": [
            {"kind": one.fault.kind, "point": one.fault.point, "in_flight": one.in_flight, "part": one.part}
            for one in result.landed
        ],
        "silences": [(kind, round(seconds, 3)) for kind, seconds in result.silences],
        "violations": [str(violation) for violation in result.violations],
    }


def unvisited(entries: Sequence[Entry]) -> list[Point]:
    """The points at which no fault landed while a turn was in flight."""
    return [point for point in Point if not _landings(entries)[point]]


def _landings(entries: Iterable[Entry]) -> Counter[str]:
    return Counter(f["point"] for entry in entries for f in entry["faults"] if f["point"] and f["in_flight"])


def report(entries: Sequence[Entry], *, wall_seconds: float) -> str:
    """The figures of a campaign as lines for a person."""
    faults = Counter(f["kind"] for entry in entries for f in entry["faults"])
    silences: dict[str, list[float]] = {}
    for entry in entries:
        for kind, seconds in entry["silences"]:
            silences.setdefault(kind, []).append(seconds)
    answers, clean = sum(e["answers"] for e in entries), sum(e["clean"] for e in entries)
    seconds = sorted(entry["seconds"] for entry in entries)
    lines = [
        f"{len(entries)} seeds, {sum(e['messages'] for e in entries)} messages, {answers} answers",
        f"{sum(faults.values())} faults of {len(faults)} kinds",
        f"a seed took {quantile(seconds, 0.5):.1f} s (p50), {seconds[-1]:.1f} s at most; this run {wall_seconds:.0f} s",
        f"violations: {sum(len(entry['violations']) for entry in entries)}",
        f"answers without any doubtful step: {100 * clean / max(answers, 1):.1f} %",
        f"seeds over {LONGEST:g} s: {len([each for each in seconds if each > LONGEST])}",
        "",
        "silence: how long somebody who wrote around a fault waited for the first sign; of faults with no other near",
        f"{'fault':38} {'times':>5} {'silence p50':>12} {'p95':>7}",
    ]
    for kind, times in sorted(faults.items()):
        found = sorted(silences.get(kind, []))
        told = (
            f"{quantile(found, 0.5):10.2f} s {quantile(found, 0.95):5.2f} s"
            if found
            else f"{'-':>12} {'-':>7}"
        )
        lines.append(f"{kind:38} {times:5} {told}")
    lines += ["", f"{'point':20} {'landed with a turn in flight':>28}"]
    landings = _landings(entries)
    lines += [f"{point:20} {landings[point]:28}" for point in Point]
    return "\n".join(lines)


def quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
