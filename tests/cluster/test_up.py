"""`trunkline up` as a real process: what it starts, what it writes, and what happens when something dies."""

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.cluster import Cluster
from tests.support.until import until

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(frontends=2) as started:
        yield started


def trunkline(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command that is expected to end by itself."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "services.cli", *arguments],
        capture_output=True, text=True, check=False, timeout=90, env={**os.environ, **settings},
    )  # fmt: skip


async def trunkline_beside(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(trunkline, *arguments, **settings)


def refused(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The one sentence of a refusal."""
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


async def test_a_cluster_answers_tells_where_it_is_and_heals(cluster: Cluster) -> None:
    run = cluster.run
    assert set(run) == {
        "frontends", "owner", "simulators", "postgres", "nats", "api_key", "sign_in_url", "demo",
    }  # fmt: skip
    assert [set(entry) for entry in run["frontends"]] == [{"id", "pid", "url"}] * 2
    assert set(run["demo"]) == {"agent_id", "binding_id", "telegram_bot"}
    assert stat.S_IMODE((cluster.data / "run.json").stat().st_mode) == 0o600

    await cluster.sim.say("good morning")
    await cluster.sim.answer("You said: good morning")

    await _check_status(cluster)
    await _check_healing(cluster)
    assert await cluster.stop() == 0
    assert not (cluster.data / "run.json").exists()


async def _check_status(cluster: Cluster) -> None:
    done = await trunkline_beside("status", "--data", str(cluster.data), "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {entry["id"] for entry in report["frontends"]} == {
        entry["id"] for entry in cluster.run["frontends"]
    }
    leaders = [entry["id"] for entry in report["frontends"] if entry["shards"]]
    assert leaders == [(await cluster.leader())["id"]]
    assert report["owner"]["state"] == "ready"


async def _check_healing(cluster: Cluster) -> None:
    """Each part that dies is started again, and the file says where it is then."""
    before = cluster.run
    after = await cluster.written(lambda: cluster.kill(before["frontends"][0]["pid"]))
    assert after["frontends"][0]["url"] == before["frontends"][0]["url"]
    assert after["frontends"][0]["id"] != before["frontends"][0]["id"]
    assert after["frontends"][1] == before["frontends"][1]

    last = await cluster.written(lambda: cluster.kill(cluster.owner_pid))
    assert last["owner"]["pid"] != before["owner"]["pid"]
    await cluster.written(lambda: cluster.kill(cluster.postgres_pid))
    await cluster.written(lambda: cluster.kill(cluster.nats_pid))
    await cluster.sim.say("still there?")
    await cluster.sim.answer("You said: still there?", timeout=40)


async def test_nothing_is_left_when_up_is_killed(cluster: Cluster) -> None:
    left = cluster.processes()
    assert len(left) > 8
    assert await cluster.stop(signal.SIGKILL) == -signal.SIGKILL
    await until(lambda: not any(_runs(process) for process in left), within=15)
    # And the same folder starts again, with everything in it.
    await cluster.start()
    await cluster.sim.say("hello again")
    await cluster.sim.answer("You said: hello again")


async def test_a_second_up_on_the_same_folder_is_refused(cluster: Cluster) -> None:
    said = refused(await trunkline_beside("up", "--port", "0", "--data", str(cluster.data)), 1)
    assert "another `trunkline up` uses" in said
    owner = {
        "TRUNKLINE_DATABASE_URL": cluster.run["postgres"]["dsn"],
        "TRUNKLINE_OWNER_ROOT": str(cluster.data / "addons"),
        "TRUNKLINE_CARRIER_FOLDER": str(cluster.data / "certs"),
        "TRUNKLINE_CARRIER_PORT": "0",
        "TRUNKLINE_OWNER_HTTP_PORT": "0",
        "TRUNKLINE_SEALING_KEY_FILE": str(cluster.data / "connectors.key"),
    }
    said = refused(await trunkline_beside("owner", **owner), 1)
    assert "another owner on this machine" in said
    await _check_doctor(cluster, owner)


async def _check_doctor(cluster: Cluster, settings: dict[str, str]) -> None:
    more = {"TRUNKLINE_NATS_URL": cluster.run["nats"]["url"], "TRUNKLINE_MODEL_URL": cluster.sim.url + "/v1"}
    done = await trunkline_beside("doctor", "--json", **settings, **more)
    assert done.returncode == 0, done.stdout
    states = {result["name"]: result["state"] for result in json.loads(done.stdout)}
    assert states == dict.fromkeys(
        ["settings", "database", "schema", "clock", "nats", "carrier", "model", "folder"], "ok"
    )


@pytest.mark.req("TOK-06")
@pytest.mark.req("TOK-08")
async def test_a_key_that_others_may_read_is_refused_at_the_start(cluster: Cluster) -> None:
    key = cluster.data / "connectors.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert await cluster.stop() == 0
    for mode in (0o644, 0o640):
        key.chmod(mode)
        said = refused(await trunkline_beside("up", "--demo", "--port", "0", "--data", str(cluster.data)), 1)
        assert f"mode 0{mode:o}" in said
        assert f"chmod 600 {key}" in said
        assert key.read_text().split(":")[1].strip() not in said
        assert not (cluster.data / "run.json").exists()
    # No token was opened, so the platform was asked nothing: it works again with the mode mended.
    key.chmod(0o600)
    await cluster.start()
    await cluster.sim.say("good again")
    await cluster.sim.answer("You said: good again")


async def test_frontend_and_owner_in_one_process_answer_too() -> None:
    async with Cluster(combined=True) as cluster:
        assert cluster.owner_pid == cluster.frontend_pids()[0]
        await cluster.sim.say("hi")
        await cluster.sim.answer("You said: hi")


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_a_taken_port_is_refused_before_anything_starts(taken_port: int) -> None:
    done = trunkline("up", "--port", str(taken_port), "--fast-database")
    assert f"port {taken_port} on 127.0.0.1 is taken by another program: stop that, or choose" in refused(
        done, 1
    )
    assert "Postgres" not in done.stdout


def test_an_unreachable_database_is_refused() -> None:
    settings = {"TRUNKLINE_DATABASE_URL": "postgresql://trunkline:marked@127.0.0.1:1/none"}
    said = refused(trunkline("up", "--port", "0", **settings), 1)
    assert "the database cannot be reached" in said
    assert "marked" not in said


def test_all_wrong_settings_are_told_at_once() -> None:
    done = trunkline("up", TRUNKLINE_HTTP_PORT="many", TRUNKLINE_HTP_HOST="x")
    assert done.returncode == 2
    assert "TRUNKLINE_HTTP_PORT must be a whole number" in done.stderr
    assert "TRUNKLINE_HTP_HOST is not a setting; did you mean TRUNKLINE_HTTP_HOST?" in done.stderr


def test_a_data_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    said = refused(trunkline("up", "--port", "0", "--data", str(tmp_path / "file" / "data")), 1)
    assert "the data folder" in said
    assert "Not a directory" in said


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
