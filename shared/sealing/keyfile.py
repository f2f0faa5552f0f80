"""The key ring as a file that only its owner may read."""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

from shared.sealing.keyring import KeyRing

NAME = "connectors.key"
_HEAD = (
    "# Trunkline: keys that seal tokens. The first one is active. Keep a copy: without it no token opens.\n"
)
_LARGEST = 64 * 1024


class KeyFileRefused(Exception):
    """The key file is not used: others can read it, it is not a file, or it cannot be understood.

    The text names the file, the reason and the remedy, and quotes nothing from it.
    """


class KeyFile:
    """The file at `path`, mode 0600; `<data>/connectors.key` is its usual place."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def load_or_create(self) -> KeyRing:
        """The ring of the file; the first start makes one. Raises KeyFileRefused.

        Of several processes that start at once, one makes the file and all load the same ring.
        """
        with contextlib.suppress(FileNotFoundError):
            return self.load()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._written(KeyRing.generate())
        try:
            # Unlike a rename, a link never replaces the file of somebody who was faster.
            os.link(temporary, self.path)
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
        return self.load()

    def load(self) -> KeyRing:
        """The ring of an existing file; raises FileNotFoundError or KeyFileRefused."""
        try:
            return KeyRing.from_text(self._read())
        except ValueError as problem:
            raise KeyFileRefused(
                f"the key file {self.path} cannot be understood: {problem}; restore it from a copy"
            ) from problem

    def rotate(self) -> KeyRing:
        """Put a new key in front and return the ring; running processes see it when they load again."""
        ring = self.load().rotated()
        self._written(ring).replace(self.path)
        return ring

    def _read(self) -> str:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            raise
        except OSError as problem:
            if self.path.is_symlink():
                raise KeyFileRefused(
                    f"the key file {self.path} is a symbolic link; put the file itself there"
                ) from problem
            raise KeyFileRefused(f"the key file {self.path} cannot be read: {problem.strerror}") from problem
        try:
            # The open file is judged, not its path, which could be exchanged in between.
            self._judge(os.fstat(descriptor))
            data = os.read(descriptor, _LARGEST + 1)
        finally:
            os.close(descriptor)
        if len(data) > _LARGEST:
            raise ValueError("it is too large for a key file")
        return data.decode()

    def _judge(self, facts: os.stat_result) -> None:
        if not stat.S_ISREG(facts.st_mode):
            raise KeyFileRefused(f"the key file {self.path} is not a regular file")
        mode = stat.S_IMODE(facts.st_mode)
        if mode & 0o077:
            raise KeyFileRefused(
                f"the key file {self.path} is open to other users (mode {mode:04o}); "
                f"no token is opened until you run: chmod 600 {self.path}"
            )

    def _written(self, ring: KeyRing) -> Path:
        """A complete file beside the real one; mkstemp makes it 0600 from its first byte."""
        descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        with os.fdopen(descriptor, "w") as file:
            file.write(_HEAD + ring.to_text())
            file.flush()
            os.fsync(file.fileno())
        return Path(name)
