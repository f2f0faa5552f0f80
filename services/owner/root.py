"""The folder of the add-ons: its ID, its locks, and the short-lived folder of their sockets."""

import asyncio
import errno
import fcntl
import os
import secrets
import shutil
import socket
import tempfile
import time
from pathlib import Path

#: seconds between tries to lock, and how long an earlier owner and its add-ons get to end
PAUSE, LOCK_SECONDS = 0.05, 12.0
#: how the folders of sockets are named
_PREFIX = "trunkline-"


class RootUnusable(Exception):
    """The folder cannot be used; the text says why and what to do."""


class SecondOwner(Exception):
    """Another owner of this root is alive; the text says which and what to do."""


def machine() -> str:
    """Names the machine since its start: locks of files are seen by all its processes."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:13]
    except OSError:
        boot = "unknown"
    return f"{socket.gethostname()}/{boot}"


class Root:
    """A Service. Holding it proves that no other owner and no add-on of it runs on this machine.

    Two file locks say so, and the kernel drops them when their holders end: `owner.lock` belongs to this process,
    `addons.lock` is inherited by every add-on.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = ""
        self._files: list[int] = []
        self._sockets: Path | None = None

    @property
    def inherited(self) -> int:
        """The open file that add-ons keep."""
        return self._files[1]

    @property
    def sockets(self) -> Path:
        """A folder for sockets; their paths may have 107 bytes at most, so it is not below the root."""
        assert self._sockets is not None, "the root is not open"
        return self._sockets

    async def start(self) -> None:
        """Raises RootUnusable, SecondOwner."""
        try:
            self._prepare()
            await self._lock()
            self.id = self._read_id()
            self._sockets = self._make_sockets()
        except OSError as problem:
            await self.stop()
            raise RootUnusable(_sentence(self.folder, problem)) from None

    async def stop(self) -> None:
        if self._sockets is not None:
            # Before the locks are dropped: after that the link is the next owner's.
            shutil.rmtree(self._sockets, ignore_errors=True)
            (self.folder / "sockets").unlink(missing_ok=True)
            self._sockets = None
        while self._files:
            os.close(self._files.pop())

    def _prepare(self) -> None:
        if str(self.folder) in {"", "."}:
            raise RootUnusable("no folder for the add-ons is set: give a durable one in TRUNKLINE_OWNER_ROOT")
        for name in ("data", "packages"):
            (self.folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = self.folder / f".space-{secrets.token_hex(4)}"
        try:
            probe.write_bytes(bytes(64 * 1024))
        finally:
            probe.unlink(missing_ok=True)

    async def _lock(self) -> None:
        give_up = time.monotonic() + LOCK_SECONDS
        for name in ("owner.lock", "addons.lock"):
            file = os.open(self.folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._files.append(file)
            while not _try_lock(file):
                if time.monotonic() > give_up:
                    await self.stop()
                    raise SecondOwner(
                        f"another owner on this machine uses the add-ons in {self.folder}: stop it first"
                    )
                await asyncio.sleep(PAUSE)

    def _make_sockets(self) -> Path:
        """A new folder of sockets. `sockets` links to it, so that what a killed owner left is found and removed."""
        link = self.folder / "sockets"
        if link.is_symlink():
            left = link.readlink()
            if left.parent == Path(tempfile.gettempdir()) and left.name.startswith(_PREFIX):
                shutil.rmtree(left, ignore_errors=True)
            link.unlink()
        made = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            link.symlink_to(made)
        except OSError:
            made.rmdir()
            raise
        return made

    def _read_id(self) -> str:
        path = self.folder / "id"
        if not path.exists():
            part = path.with_suffix(".new")
            part.write_text(secrets.token_hex(8), "ascii")
            part.replace(path)
        return path.read_text("ascii").strip()


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sentence(folder: Path, problem: OSError) -> str:
    if problem.errno == errno.ENOSPC:
        return f"there is no space left for the add-ons in {folder}: free some, or give another folder"
    return f"the folder of the add-ons {folder} cannot be used: {problem.strerror}"
