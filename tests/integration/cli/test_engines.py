"""The embedded engines: what they recover from."""

import asyncio
import dataclasses
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from services.cli.local.engine import EngineFailed
from services.cli.local.nats import Nats
from services.cli.local.postgres import Postgres, find_programs
from tests.support.until import until


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the user of Postgres gets into."""
    folder = Path(tempfile.mkdtemp(prefix="trunkline-engine-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
async def postgres(home: Path) -> AsyncIterator[Postgres]:
    try:
        find_programs()
    except EngineFailed as failed:
        pytest.fail(str(failed)) if os.environ.get("CI") else pytest.skip(str(failed))
    engine = Postgres(home / "postgres")
    await engine.start()
    yield engine
    await engine.stop()


async def note(engine: Postgres) -> int:
    """Write a row, and count all."""
    connection = await asyncpg.connect(engine.url)
    try:
        await connection.execute("CREATE TABLE IF NOT EXISTS notes (at timestamptz DEFAULT now())")
        await connection.execute("INSERT INTO notes DEFAULT VALUES")
        return int(await connection.fetchval("SELECT count(*) FROM notes"))
    finally:
        await connection.close()


async def test_postgres_keeps_everything_and_its_port_over_a_kill(postgres: Postgres) -> None:
    assert await note(postgres) == 1
    port = postgres.port
    os.kill(postgres.pid, signal.SIGKILL)
    assert await postgres.wait() == f"it ended with status -{int(signal.SIGKILL)}"
    await postgres.start()
    assert postgres.port == port
    assert await note(postgres) == 2


async def test_postgres_starts_after_a_crash_of_the_machine(postgres: Postgres, home: Path) -> None:
    """The process number that was left behind may belong to a stranger by now, even to one of the same user."""
    await postgres.stop()
    (home / "postgres" / "cluster" / "postmaster.pid").write_text(f"{os.getpid()}\n/elsewhere\n")
    await postgres.start()
    assert await note(postgres) == 1


async def test_a_folder_in_use_is_waited_for_and_then_refused(postgres: Postgres, home: Path) -> None:
    with pytest.raises(EngineFailed, match=f"another Postgres .process {postgres.pid}. uses"):
        await Postgres(home / "postgres", former_seconds=0.2).start()
    assert await note(postgres) == 1


async def test_a_set_up_that_was_broken_off_is_begun_again(home: Path) -> None:
    (home / "postgres" / "cluster.new").mkdir(parents=True)
    (home / "postgres" / "cluster.new" / "PG_VERSION").write_text("18\n")
    engine = Postgres(home / "postgres", fast=True)
    await engine.start()
    try:
        assert await note(engine) == 1
    finally:
        await engine.stop()


async def test_a_database_of_another_version_is_refused_with_what_to_do(home: Path) -> None:
    cluster = home / "postgres" / "cluster"
    cluster.mkdir(parents=True)
    (cluster / "PG_VERSION").write_text("9\n")
    with pytest.raises(EngineFailed, match="was made by Postgres 9 and this is"):
        await Postgres(home / "postgres").start()


async def test_a_folder_that_cannot_be_made_is_refused(home: Path) -> None:
    (home / "file").write_text("")
    with pytest.raises(EngineFailed, match="cannot be used: File exists"):
        await Postgres(home / "file" / "postgres").start()


async def test_nats_answers_and_keeps_its_port_over_a_kill(home: Path) -> None:
    nats = Nats(home / "nats.log")
    await nats.start()
    port = nats.port
    os.kill(nats.pid, signal.SIGKILL)
    await nats.wait()
    await nats.start()
    assert nats.port == port
    await nats.stop()
    assert not nats.alive()


async def test_a_taken_port_of_nats_is_told(home: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nats = Nats(home / "nats.log")
        nats.port = taken.getsockname()[1]
        with pytest.raises(EngineFailed, match="address already in use"):
            await nats.start()


async def test_engines_end_with_the_process_that_started_them(home: Path) -> None:
    """The kernel tells them, whatever ended it."""
    code = (
        "import asyncio, sys, time; from pathlib import Path; from services.cli.local.nats import Nats\n"
        "async def run():\n    nats = Nats(Path(sys.argv[1])); await nats.start(); print(nats.pid, flush=True)\n"
        "    time.sleep(60)\n"
        "asyncio.run(run())"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, str(home / "nats.log"), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    parent.kill()
    await parent.wait()
    await until(lambda: not Path(f"/proc/{pid}").exists() or " Z " in Path(f"/proc/{pid}/stat").read_text())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts Postgres as another user")
async def test_postgres_runs_with_programs_and_data_below_a_folder_that_its_user_cannot_enter(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = home / "closed"
    closed.mkdir(mode=0o700)
    found = find_programs()
    copies = tuple(closed / "site" / tree.name for tree in found.trees)
    for tree, copy in zip(found.trees, copies, strict=True):
        shutil.copytree(tree, copy, symlinks=True)
    within = next(t for t in found.trees if found.folder.is_relative_to(t))
    programs = closed / "site" / within.name / found.folder.relative_to(within)
    monkeypatch.setattr("services.cli.local.account.CACHE", home / "cache")
    monkeypatch.setattr("services.cli.local.account.STATE", home / "state")
    there = dataclasses.replace(found, folder=programs, trees=copies)
    monkeypatch.setattr("services.cli.local.postgres.find_programs", lambda: there)
    engine = Postgres(closed / "postgres", fast=True)
    await engine.start()
    try:
        assert await note(engine) == 1
    finally:
        await engine.stop()
    assert (closed / "postgres").resolve().is_relative_to(home / "state")
    assert list((home / "cache").iterdir())
