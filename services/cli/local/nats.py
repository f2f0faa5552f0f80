"""A NATS server of our own on one machine, from the wheel or from the system."""

import asyncio
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from services.cli.local.engine import START_SECONDS, Engine, EngineFailed, free_port, last_line
from services.cli.local.tether import tethered

_LOOK = 0.005


def find_program() -> str:
    """Beside our interpreter, where the wheel puts it, else on the path. Raises EngineFailed."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise EngineFailed(
            "there is no NATS on this machine: install `trunkline[local]`, or set TRUNKLINE_NATS_URL"
        )
    return found


class Nats(Engine):
    """One server without persistence, on a free port of the loopback that it keeps over a restart. A Service."""

    ending = signal.SIGTERM
    stop_seconds = 5.0

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Raises EngineFailed."""
        program = find_program()
        self.port = self.port or free_port()
        try:
            with self._log.open("ab") as sink:
                self._launch(program, sink.fileno())
        except OSError as problem:
            raise EngineFailed(f"NATS cannot write its log {self._log}: {problem.strerror}") from None
        give_up = asyncio.get_running_loop().time() + START_SECONDS
        while not self._answers():
            if not self.alive() or asyncio.get_running_loop().time() > give_up:
                await self.stop()
                raise EngineFailed(f"NATS did not start: {last_line(self._log)}")
            await asyncio.sleep(_LOOK)

    def _launch(self, program: str, sink: int) -> None:
        command = [program, "--addr", "127.0.0.1", "--port", str(self.port)]
        self._process = subprocess.Popen(
            tethered(command, signal.SIGKILL),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            cwd="/",
            process_group=0,
        )

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0
