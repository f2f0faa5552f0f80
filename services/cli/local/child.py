"""One of our own services as a child process of `up`."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from services.cli.local.engine import last_line
from services.cli.problems import ENVIRONMENT, Refused

#: seconds that a service gets to become ready; a second owner waits for the first one's end
START_SECONDS = 60.0


class Child:
    """`trunkline <arguments>` with `environment` beside our own; what it says goes to `log`.

    Arguments and environment are asked for at each start. `facts` are what it told when it became ready.
    `stop_seconds` is its grace after SIGTERM.
    """

    def __init__(
        self,
        arguments: Callable[[], list[str]],
        environment: Callable[[], Mapping[str, str]],
        *,
        log: Path,
        stop_seconds: float,
    ) -> None:
        self.facts: dict[str, Any] = {}
        self._arguments = arguments
        self._environment = environment
        self._log = log
        self._stop_seconds = stop_seconds
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Return when it is ready. Raises Refused with its own words."""
        reader, writer = os.pipe()
        try:
            self._process = await self._spawn(writer)
        finally:
            os.close(writer)
        try:
            async with asyncio.timeout(START_SECONDS):
                said = await _line(reader)
        except TimeoutError:
            said = b""
        except asyncio.CancelledError:
            await self.stop()
            raise
        line = json.loads(said or b"{}")
        if "facts" not in line:
            await self.stop()
            text = line.get("problem") or f"{self._log.stem} did not become ready: {last_line(self._log)}"
            raise Refused(text, code=line.get("code", ENVIRONMENT))
        self.facts = line["facts"]

    async def wait(self) -> str:
        """Return when it has ended, with how."""
        assert self._process is not None, "the child has not started"
        status = await self._process.wait()
        how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        return f"ended {how}"

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        for kind in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(kind)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._stop_seconds):
                    await process.wait()
                return

    async def _spawn(self, ready: int) -> asyncio.subprocess.Process:
        command = [sys.executable, "-P", "-m", "services.cli", *self._arguments()]
        options = ["--ready-fd", str(ready), "--end-with-parent", str(os.getpid())]
        with self._log.open("ab") as sink:
            return await asyncio.create_subprocess_exec(
                *command,
                *options,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,  # meant for a person; `up` has its own words
                stderr=sink,
                pass_fds=(ready,),
                process_group=0,  # a Ctrl-C in the terminal is for `up`, which ends its children in order
                env={**os.environ, **self._environment()},
            )


async def _line(reader: int) -> bytes:
    """The first line of a pipe; empty when its other end closed without one."""
    stream = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reader, "rb", 0)
    )
    try:
        return await stream.readline()
    finally:
        transport.close()
