"""The parts that `up` is made of: its folder, the plan for its children, their keeper, their log lines."""

import asyncio
import json
import stat
from pathlib import Path

import pytest

from services.cli.local.engine import EngineFailed
from services.cli.local.folder import DataFolder
from services.cli.local.keeper import Keeper
from services.cli.local.plan import Environment, Plan
from services.cli.local.tail import Tail
from services.cli.problems import Refused
from shared.config import Settings, load


def test_a_given_folder_is_held_by_one_and_stays(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path / "data")
    with folder.held():
        folder.write_run_file({"api_key": "k"})
        assert stat.S_IMODE(folder.run_file.stat().st_mode) == 0o600
        assert json.loads(folder.run_file.read_bytes()) == {"api_key": "k"}
        with (
            pytest.raises(Refused, match="another `trunkline up` uses"),
            DataFolder(tmp_path / "data").held(),
        ):
            pass
    assert not folder.run_file.exists()
    with DataFolder(tmp_path / "data").held():
        pass


def test_a_temporary_folder_lets_others_pass_and_is_gone_afterwards() -> None:
    folder = DataFolder(None)
    with folder.held():
        assert stat.S_IMODE(folder.path.stat().st_mode) == 0o711
        (folder.path / "postgres").mkdir()
    assert not folder.path.exists()


def test_logs_of_the_run_before_are_set_aside(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    with folder.held():
        folder.log("owner").write_text("first")
    with folder.held():
        assert not folder.log("owner").exists()
        assert (tmp_path / "logs" / "owner.log.1").read_text() == "first"


def environment(tmp_path: Path, plan: Plan, **settings: str) -> Environment:
    made = Environment(plan, load(settings), tmp_path)
    made.database_url, made.nats_url = "postgresql://x/y", "nats://x"
    return made


def test_what_the_children_are_given_are_settings(tmp_path: Path) -> None:
    made = environment(tmp_path, Plan(demo=True, carrier_port=7, simulator_port=8))
    for child in (made.owner(), made.frontend(1, 0), made.everyone()):
        assert isinstance(load(child), Settings)
    owner, frontend = load(made.owner()), load(made.frontend(2, 0))
    assert owner.owner.root == str(tmp_path / "addons")
    assert json.loads(owner.owner.development_hosts) == {"telegram_api": "http://127.0.0.1:8"}
    assert frontend.model.url == "http://127.0.0.1:8/v1"
    assert frontend.carrier.url == "https://127.0.0.1:7"
    assert frontend.sealing.key_file == owner.sealing.key_file == str(tmp_path / "connectors.key")
    assert frontend.frontend.id.startswith("frontend-2-")
    assert made.frontend(2, 0)["TRUNKLINE_FRONTEND_ID"] != frontend.frontend.id


def test_what_the_operator_has_set_stays(tmp_path: Path) -> None:
    made = environment(
        tmp_path, Plan(demo=True),
        TRUNKLINE_MODEL_URL="http://models/v1", TRUNKLINE_OWNER_ROOT="/srv/addons", TRUNKLINE_SEALING_KEY_FILE="/k",
    )  # fmt: skip
    assert "TRUNKLINE_MODEL_URL" not in made.frontend(1, 0)
    assert "TRUNKLINE_OWNER_ROOT" not in made.owner()
    assert "TRUNKLINE_SEALING_KEY_FILE" not in made.everyone()
    assert made.demo_model == ""


class Flaky:
    """A part that fails `failures` times after its first start, and ends when told to."""

    def __init__(self, failures: int) -> None:
        self.starts = 0
        self.failures = failures
        self.ended = asyncio.Event()

    async def start(self) -> None:
        self.starts += 1
        if 1 < self.starts <= 1 + self.failures:
            raise EngineFailed("not yet")
        self.ended.clear()

    async def wait(self) -> str:
        await self.ended.wait()
        return "ended by SIGKILL"

    async def stop(self) -> None:
        self.ended.set()


async def test_a_part_that_died_is_started_until_it_runs() -> None:
    told: list[tuple[str, str]] = []
    twice_ready = asyncio.Event()

    def listen(_name: str, state: str, sentence: str) -> None:
        told.append((state, sentence))
        if [state for state, _ in told].count("ready") == 2:
            twice_ready.set()

    part = Flaky(failures=2)
    keeper = Keeper("owner", part, listen)
    await keeper.start()
    part.ended.set()
    async with asyncio.timeout(10):
        await twice_ready.wait()
    await keeper.stop()
    assert told == [
        ("starting", ""), ("ready", ""), ("down", "ended by SIGKILL; starting it again"),
        ("down", "not yet"), ("down", "not yet"), ("ready", ""),
    ]  # fmt: skip


async def test_a_part_whose_first_start_fails_is_not_kept() -> None:
    class Broken(Flaky):
        async def start(self) -> None:
            raise Refused("no", code=2)

    keeper = Keeper("owner", Broken(0), lambda *_: None)
    with pytest.raises(Refused):
        await keeper.start()
    await keeper.stop()


def test_warnings_and_errors_of_the_logs_are_passed_on_as_one_line(tmp_path: Path) -> None:
    told: list[tuple[str, str, str]] = []
    tail = Tail(lambda *line: told.append(line), known=frozenset({"expected"}))
    log = tmp_path / "owner.log"
    tail.add("owner", log)
    tail.catch_up()
    lines = [
        {"event": "fine", "level": "info"},
        {"event": "expected", "level": "warning"},
        {"event": "Fatal error on\nSSL protocol", "level": "error"},
        {
            "event": "owner_fenced",
            "level": "error",
            "why": "a newer owner",
            "exception": "Traceback ...",
            "service": "owner",
        },
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines) + "no JSON\n{broken\n" + '{"event": "half'
    log.write_text(text)
    tail.catch_up()
    assert told == [
        ("owner", "error", "Fatal error on SSL protocol"),
        ("owner", "error", "owner_fenced why=a newer owner"),
    ]
    log.write_text(text + '", "level": "warning"}\n')
    tail.catch_up()
    assert told[2:] == [("owner", "warning", "half")]
