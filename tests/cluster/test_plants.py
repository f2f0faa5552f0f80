"""The checker catches bugs: each plant is a patch to a copy of the sources, and a history of that copy is refused.

A plant whose patch no longer applies has to be written anew against the code as it is.
"""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from shared.lifecycle.points import Point
from tests.chaos import workload
from tests.chaos.faults import Fault
from tests.chaos.rack import rack
from tests.chaos.seed import play

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(240)]

ROOT = Path(__file__).parent.parent.parent
PLANTS = ROOT / "tests" / "chaos" / "plants"
#: workloads that a bug gets to show itself in
TRIES = 10


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug, the faults under which it shows, and the rules that it breaks."""

    name: str
    rules: frozenset[str]
    faults: tuple[Fault, ...] = ()

    def __str__(self) -> str:
        return self.name


SOWN = [
    Plant("offset_before_insert", frozenset({"lost"}), (Fault("kill", "hit", 0.1, Point.INTAKE_BEFORE),)),
    Plant(
        "no_term_on_a_write",
        frozenset({"stale"}),
        (Fault("stop, and hold polls, of", "hit", 0.1, Point.INTAKE_BEFORE),),
    ),
    Plant("blind_resend", frozenset({"doubled"}), (Fault("lose replies of", "platform", 0.1),)),
    Plant("lost_claim", frozenset({"stuck"}), (Fault("kill", "hit", 0.1, Point.TURN_BEFORE),)),
    Plant("unfenced_close", frozenset({"stale"}), (Fault("stop", "hit", 0.1, Point.TURN_AFTER),)),
    Plant("admission_after_append", frozenset({"admission"})),
    Plant("preview_after_final", frozenset({"changed"}), (Fault("slow down previews of", "platform", 0.1),)),
    Plant("notice_twice", frozenset({"doubled"})),
    Plant("read_backwards", frozenset({"order"}), (Fault("stop", "leader", 0.3),)),
    Plant("new_chat_over_a_turn", frozenset({"changed"})),
    Plant("write_by_epoch", frozenset({"doubled"}), (Fault("kill", "hit", 0.1, Point.TOOL_TOLD),)),
    Plant("answer_cut", frozenset({"changed"})),
]


def test_every_patch_is_sown() -> None:
    assert {plant.name for plant in SOWN} == {path.stem for path in PLANTS.glob("*.patch")}


def planted(plant: Plant, tree: Path) -> Path:
    """A copy of the sources with the bug in it."""
    for folder in ("services", "shared"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    patch = PLANTS / f"{plant.name}.patch"
    subprocess.run(["git", "apply", "--unsafe-paths", str(patch)], cwd=tree, check=True)
    return tree


@pytest.mark.parametrize("plant", SOWN, ids=str)
async def test_a_planted_bug_is_caught(plant: Plant, tmp_path: Path) -> None:
    broken: set[str] = set()
    async with rack(tree=planted(plant, tmp_path)) as made:
        await made.mended()
        bots = await workload.make_bots(made)
        for seed in range(7_000, 7_000 + TRIES):
            result = await play(made, bots, seed, plant.faults)
            broken |= {violation.rule for violation in result.violations}
            if broken & plant.rules:
                assert all(violation.history for violation in result.violations)
                return
    pytest.fail(f"{plant.name} was not caught: {broken}")
