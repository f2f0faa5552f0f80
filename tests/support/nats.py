"""A real NATS server for tests, from the wheel that `trunkline up` uses."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.until import until


class NatsServer:
    """One server on a free port of the loopback; it keeps its port over a restart."""

    def __init__(self, folder: Path) -> None:
        beside = Path(sys.executable).parent / "nats-server"
        found = str(beside) if beside.exists() else shutil.which("nats-server")
        if found is None:
            if os.environ.get("CI"):
                pytest.fail("there is no nats-server")
            pytest.skip("there is no nats-server on this machine")
        self._program = found
        self._log = folder / "nats.log"
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._launch()
        await until(self._answers)

    def _launch(self) -> None:
        command = [self._program, "--addr", "127.0.0.1", "--port", str(self.port), "--log", str(self._log)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        """End it as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
