"""Where the written contracts and cases of others are found."""

import os
from pathlib import Path

import pytest

DEFAULT = Path(__file__).parents[2].parent / "shared"


def spec_path(relative: str) -> Path:
    """A file or folder of the specification, e.g. `contracts/telegram/facts.md`.

    The folder is `TRUNKLINE_SPEC`, or `shared` beside the repository. Where it is missing, the test (or the
    module that asks at import) is skipped with a notice; with CI set it is a failure.
    """
    path = Path(os.environ.get("TRUNKLINE_SPEC") or DEFAULT) / relative
    if path.exists():
        return path
    notice = f"the specification has no {relative}; TRUNKLINE_SPEC tells where it is"
    if os.environ.get("CI"):
        pytest.fail(notice, pytrace=False)
    pytest.skip(notice, allow_module_level=True)
