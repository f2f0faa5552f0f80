"""A real PgBouncer between Trunkline and its database."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from services.cli.local.account import unprivileged
from services.cli.local.engine import free_port
from shared.config.sections import Database as DatabaseSettings
from shared.store import Database
from tests.support.until import until

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(PGBOUNCER is None and not os.environ.get("CI"), reason="needs PgBouncer"),
]


@contextmanager
def pooler(database_url: str, mode: str) -> Iterator[tuple[str, Path]]:
    """The address of the database behind a pooler, and the pooler's log."""
    address, port = urlsplit(database_url), free_port()
    with tempfile.TemporaryDirectory(prefix="trunkline-pooler-") as name:
        home = Path(name)
        home.chmod(0o777)
        (home / "pooler.ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={address.port} user={address.username}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
            f"auth_type = any\npool_mode = {mode}\ndefault_pool_size = 4\nlogfile = {home / 'log'}\n"
            f"ignore_startup_parameters = {', '.join(_started_with())}\n"
        )
        account = unprivileged()
        assert PGBOUNCER is not None, "there is no PgBouncer"
        process = subprocess.Popen(
            [PGBOUNCER, "-q", str(home / "pooler.ini")], user=account.pw_uid if account else None
        )
        try:
            yield f"postgresql://{address.username}@127.0.0.1:{port}{address.path}", home / "log"
        finally:
            process.terminate()
            process.wait(10)


def _started_with() -> list[str]:
    """What our sessions set at their start; a pooler that is not told to let it pass refuses them."""
    return [*Database(DatabaseSettings(), name="test")._server_settings(), "extra_float_digits"]


def trunkline(*arguments: str, database: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-P", "-m", "services.cli", *arguments]
    environment = {**os.environ, "TRUNKLINE_DATABASE_URL": database}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)


@pytest.mark.case("CL-04")
async def test_a_pooler_in_transaction_mode_is_found_and_refused(database_url: str) -> None:
    with pooler(database_url, "transaction") as (behind, log):
        await until(log.exists)
        done = trunkline("migrate", database=behind)
        assert done.returncode == 1
        assert "leads to a pooler in transaction mode" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        told = json.loads(trunkline("doctor", "--json", database=behind).stdout)
    (finding,) = (result for result in told if result["name"] == "database")
    assert finding["state"] == "failed"
    assert "session mode" in finding["fix"]


async def test_a_pooler_in_session_mode_is_fine(database_url: str) -> None:
    with pooler(database_url, "session") as (behind, log):
        await until(log.exists)
        done = trunkline("migrate", database=behind)
    assert done.returncode == 0, done.stderr
    assert "The schema is current" in done.stdout
