"""What reaches a log, and what never does."""

import subprocess
import sys

import pytest

PROGRAM = """
import structlog
from shared.config.sections import Log
from shared.observe.logs import configure

def work(api_key: str) -> None:
    raise RuntimeError("it broke")

configure(Log(format=FORMAT), "test")
try:
    work("".join(["hidden", "-", "value"]))
except RuntimeError:
    structlog.get_logger().exception("work_failed")
"""


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_traceback_shows_no_value_of_a_variable(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("FORMAT", repr(form))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "it broke" in done.stderr
    assert "work_failed" in done.stderr
    assert "hidden-value" not in done.stderr
