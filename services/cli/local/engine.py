"""What the embedded engines have in common: one process that is not ours, watched and ended."""

import asyncio
import contextlib
import signal
import socket
import subprocess
from pathlib import Path

#: seconds that an engine gets to start
START_SECONDS = 30.0
#: seconds between looks at a process that is not a child of the event loop
_LOOK = 0.05


class EngineFailed(Exception):
    """An engine could not be started; the text says why and what to do."""


class Engine:
    """A process with a log file. `stop` sends `ending` and gives it `stop_seconds`."""

    ending = signal.SIGTERM
    stop_seconds = 20.0

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    @property
    def pid(self) -> int:
        assert self._process is not None, "the engine has not started"
        return self._process.pid

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def wait(self) -> str:
        """Return when it has ended, with how."""
        while self.alive():  # noqa: ASYNC110 - a child of any loop, so none can tell of its end
            await asyncio.sleep(_LOOK)
        status = self._process.returncode if self._process is not None else 0
        return f"it ended with status {status}"

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        for kind in (self.ending, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(kind)
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(process.wait, self.stop_seconds)
                return


def last_line(log: Path) -> str:
    """The last thing that a process said."""
    try:
        lines = log.read_text("utf-8", "replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1][-300:] if lines else "it gave no reason"


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on now; whoever is asked to listen on it may still find it taken."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
