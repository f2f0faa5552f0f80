"""What a person meets first: help, version, refusals."""

import subprocess
import sys

import pytest

from services.cli.problems import Refused, expected
from services.owner.root import SecondOwner
from shared.config import ConfigProblems
from shared.version import VERSION


def trunkline(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "services.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_help_names_every_command_and_hides_those_of_up() -> None:
    done = trunkline("--help")
    assert done.returncode == 0
    for name in ("up", "status", "doctor", "frontend", "owner", "certs", "migrate", "sim"):
        assert f" {name} " in done.stdout
    assert "prepare" not in done.stdout


def test_the_version_is_told() -> None:
    assert trunkline("--version").stdout.strip() == VERSION


def test_help_is_light() -> None:
    """What only a running service needs is not loaded for a few words."""
    heavy = "{'aiohttp', 'asyncpg', 'sqlalchemy', 'cryptography', 'nats'}"
    code = f"import sys, services.cli.main; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_status_without_a_cluster_says_how_to_start_one(tmp_path: object) -> None:
    done = trunkline("status", "--data", str(tmp_path))
    assert done.returncode == 1
    assert "no cluster runs in" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_combined_with_several_frontends_is_refused() -> None:
    done = trunkline("up", "--combined", "--frontends", "2")
    assert done.returncode == 2
    assert "--combined is one process" in done.stderr


@pytest.mark.parametrize(
    ("problem", "code"),
    [(ConfigProblems(["a", "b"]), 2), (SecondOwner("stop it first"), 1), (Refused("no", code=2), 2)],
)
def test_expected_problems_have_a_code(problem: Exception, code: int) -> None:
    refused = expected(problem)
    assert refused is not None
    assert refused.code == code


def test_a_bug_is_no_expected_problem() -> None:
    assert expected(KeyError("x")) is None
