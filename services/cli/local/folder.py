"""The data folder of a local cluster."""

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from services.cli.problems import Refused

RUN_FILE = "run.json"


class DataFolder:
    """`given`, or a temporary folder that is deleted at the end; held by one `up` at a time.

    Others may pass through it (0711), so that the user of Postgres gets to its own folder; what is secret inside
    is closed by itself.
    """

    def __init__(self, given: Path | None) -> None:
        self.temporary = given is None
        self._given = given
        self._path: Path | None = None
        self._lock = -1

    @property
    def path(self) -> Path:
        assert self._path is not None, "the folder is not open"
        return self._path

    @property
    def run_file(self) -> Path:
        return self.path / RUN_FILE

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Raises Refused when it cannot be used or is in use."""
        try:
            self._open()
        except OSError as problem:
            where = self._given or tempfile.gettempdir()
            raise Refused(
                f"the data folder {where} cannot be used: {problem.strerror}; choose another"
            ) from None
        try:
            yield
        finally:
            self.run_file.unlink(missing_ok=True)
            os.close(self._lock)
            if self.temporary:
                self._remove()

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def write_run_file(self, facts: dict[str, Any]) -> None:
        """Replace it at once; from its first byte only its owner can read it."""
        handle, part = tempfile.mkstemp(dir=self.path, prefix=".run-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(facts, file, indent=2)
            file.write("\n")
        Path(part).replace(self.run_file)

    def _open(self) -> None:
        if self._given is None:
            self._path = Path(tempfile.mkdtemp(prefix="trunkline-"))
            self._path.chmod(0o711)
        else:
            self._path = self._given.absolute()
            if not self._path.exists():
                self._path.mkdir(parents=True)
                self._path.chmod(0o711)
        self._lock = os.open(self._path / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise Refused(
                f"another `trunkline up` uses {self._path}: stop it first, or choose another folder"
            ) from None
        self._prepare()

    def _prepare(self) -> None:
        self.run_file.unlink(missing_ok=True)
        for left in self.path.glob(".run-*"):
            left.unlink()
        logs = self.path / "logs"
        logs.mkdir(exist_ok=True, mode=0o700)
        for log in logs.glob("*.log"):
            log.replace(log.with_suffix(".log.1"))
        probe = logs / f".space-{secrets.token_hex(4)}"
        try:
            probe.write_bytes(bytes(64 * 1024))
        finally:
            probe.unlink(missing_ok=True)

    def _remove(self) -> None:
        database = self.path / "postgres"
        if database.is_symlink():
            shutil.rmtree(database.resolve(), ignore_errors=True)
        shutil.rmtree(self.path, ignore_errors=True)
