"""What a person meets first: help, version, refusals."""

import subprocess
import sys
from pathlib import Path

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


def test_simulators_without_descriptions_to_hold_calls_against_are_refused(tmp_path: Path) -> None:
    done = trunkline("sim", "--contracts", str(tmp_path))
    assert done.returncode == 1
    assert done.stderr == (
        f"trunkline: {tmp_path} holds no API descriptions: give their folder in --contracts, or leave it away\n"
    )


def test_simulators_without_the_validator_are_refused(tmp_path: Path) -> None:
    (tmp_path / "telegram").mkdir()
    (tmp_path / "telegram" / "bot-api.schema.json").write_text('{"$defs": {}}')
    missing = "import sys; sys.modules['jsonschema'] = None; from services.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", missing, "sim", "--contracts", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "jsonschema, which is not installed" in done.stderr


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
