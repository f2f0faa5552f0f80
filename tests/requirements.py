"""Which rows of the checklists are proven by a test.

`python -m tests.requirements` prints proven and all rows for each area. The folder of the checklists is `SPEC`, or
`shared/spec` beside the repository. As a pytest plugin (`-p tests.requirements`) it writes the IDs of the collected
tests to the file that `--requirements` names.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.support.spec import DEFAULT

_ROW = re.compile(r"^- \[.\] ([A-Z0-9]+-\d+) ", re.MULTILINE)


def rows(folder: Path) -> list[str]:
    """The ID of every row, in the order of the checklists."""
    return [
        found
        for path in sorted(folder.glob("checklist-*.md"))
        for found in _ROW.findall(path.read_text("utf-8"))
    ]


def marked(items: Iterable[pytest.Item]) -> set[str]:
    """The IDs that tests say they prove."""
    return {str(found) for item in items for mark in item.iter_markers("req") for found in mark.args}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--requirements", help="file for the IDs of the collected tests, as JSON")


def pytest_collection_finish(session: pytest.Session) -> None:
    target = session.config.getoption("--requirements", default=None)
    if target:
        Path(target).write_text(json.dumps(sorted(marked(session.items))), "utf-8")


def collected() -> set[str]:
    """The IDs in the whole suite. Ends the program when the suite cannot be collected."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "ids.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "tests.requirements"]
        done = subprocess.run(
            [*command, "--requirements", str(target)], capture_output=True, text=True, check=False
        )
        if not target.exists() or done.returncode != 0:
            sys.exit(f"the tests cannot be collected:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return set(json.loads(target.read_text("utf-8")))


def main() -> None:
    folder = Path(os.environ.get("SPEC") or DEFAULT / "spec")
    known = rows(folder)
    if not known:
        sys.exit(
            f"there are no checklists in {folder}: give their folder, as in `make requirements SPEC=...`"
        )
    proven = collected()
    unknown = sorted(proven - set(known))
    if unknown:
        sys.exit(f"no checklist has these IDs, which tests name: {', '.join(unknown)}")
    total = Counter(found.partition("-")[0] for found in known)
    done = Counter(found.partition("-")[0] for found in proven)
    for area, count in total.items():
        print(f"{area:8} {done[area]:4} / {count:4}")
    print(f"{'all':8} {len(proven):4} / {len(known):4}")


if __name__ == "__main__":
    main()
