"""One add-on as a process: started, asked for its health, started again with backoff, ended."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from services.owner.addons import Running
from shared.domain.errors import Failure
from shared.lifecycle import Tasks
from shared.observe import metrics
from shared.sdk.client import AddonClient
from shared.sdk.manifest import Manifest, ManifestRefused, parse_manifest
from shared.sdk.ops import HealthAnswer

log = structlog.get_logger(__name__)

#: seconds that a new process gets until it answers, and that an ending one gets: a fenced owner's add-ons have to be
#: gone before its lease ends
START_SECONDS, STOP_SECONDS = 15.0, 0.8
#: unanswered health questions in a row after which a process is ended
MISSED = 3
#: links that one add-on may tell of, and seconds within which two ages mean the same frame
MOST_LINKS, SAME_FRAME_SECONDS = 10_000, 0.5
#: first and longest pause before another start, and how long a process must live to be forgiven, in seconds
FIRST_PAUSE, LONGEST_PAUSE, FORGIVEN_AFTER = 0.1, 30.0, 30.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the owner gives to every add-on process."""

    data: Path
    sockets: Path
    inherited: tuple[int, ...]
    settings: dict[str, str]
    ping_seconds: float
    silence_seconds: float


class AddonProcess:
    """Keeps one add-on running. A Service: `start` returns at once, `running` is set when the add-on answers."""

    def __init__(self, manifest: Manifest, command: Sequence[str], around: Surroundings) -> None:
        self.manifest = manifest
        self.running: Running | None = None
        self.state = "starting"
        self.reason = ""
        self.pid = 0
        #: binding -> when the add-on last heard anything on its link, in monotonic seconds, as it says itself
        self.heard: dict[str, float] = {}
        self._around = around
        self._command = tuple(command)
        self._tasks = Tasks(f"addon-{manifest.id}")
        self._first_try = asyncio.Event()

    async def start(self) -> None:
        self._tasks.run("supervise", self._supervise())

    async def stop(self) -> None:
        self.state = "stopped"
        await self._tasks.stop()
        self._first_try.set()

    async def first_try(self) -> None:
        """Wait until the add-on answers, or has failed to once."""
        await self._first_try.wait()

    async def _supervise(self) -> None:
        pause = FIRST_PAUSE
        while True:
            began = time.monotonic()
            self.state, self.pid = "starting", 0
            try:
                await self._live()
            except (OSError, Failure, ManifestRefused, TimeoutError) as problem:
                self.reason = getattr(problem, "message", "") or str(problem) or "it did not answer in time"
            self.running, self.state, self.pid, self.heard = None, "failed", 0, {}
            self._first_try.set()
            if time.monotonic() - began > FORGIVEN_AFTER:
                pause = FIRST_PAUSE
            log.warning("addon_ended", addon=self.manifest.id, reason=self.reason, pause=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _live(self) -> None:
        """One life of the process, from its start to its end."""
        credential = secrets.token_urlsafe(32)
        socket = self._around.sockets / f"{self.manifest.id}-{secrets.token_hex(4)}.sock"
        client = AddonClient(socket, credential)
        await client.start()
        process: asyncio.subprocess.Process | None = None
        try:
            process = await self._spawn(socket, credential)
            metrics.ADDON_STARTS.labels(self.manifest.id).inc()
            await self._greet(client, process)
            self.running = Running(self.manifest.id, self.manifest, client, credential)
            metrics.ADDONS_RUNNING.inc()
            self.state, self.reason, self.pid = "running", "", process.pid
            self._first_try.set()
            log.info("addon_running", addon=self.manifest.id, pid=process.pid)
            await self._watch(client, process)
        finally:
            if self.running is not None:
                metrics.ADDONS_RUNNING.dec()
            self.running = None
            try:
                if process is not None:
                    await _end(process)
            finally:
                await client.stop()
                with contextlib.suppress(FileNotFoundError):
                    socket.unlink()

    async def _spawn(self, socket: Path, credential: str) -> asyncio.subprocess.Process:
        data = self._around.data / self.manifest.id
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        reader, writer = os.pipe()
        try:
            os.write(writer, credential.encode() + b"\n")
            environment = {
                "PATH": os.environ.get("PATH", ""),
                "LANG": "C.UTF-8",
                "TRUNKLINE_ADDON_SOCKET": str(socket),
                "TRUNKLINE_HOST_SOCKET": str(self._around.sockets / "host.sock"),
                "TRUNKLINE_ADDON_DATA": str(data),
                "TRUNKLINE_ADDON_CREDENTIAL_FD": str(reader),
                "TRUNKLINE_ADDON_SILENCE_SECONDS": str(self._around.silence_seconds),
            }
            if self._around.settings:
                environment["TRUNKLINE_ADDON_SETTINGS"] = json.dumps(self._around.settings)
            return await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                env=environment,
                pass_fds=(reader, *self._around.inherited),
            )
        finally:
            os.close(writer)
            os.close(reader)

    async def _greet(self, client: AddonClient, process: asyncio.subprocess.Process) -> None:
        """Wait for the first answer; the manifest must be the installed one."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                try:
                    raw = await client.manifest(deadline=2.0)
                    break
                except Failure:
                    if process.returncode is not None:
                        raise
                    await asyncio.sleep(0.02)
        if parse_manifest(raw) != self.manifest:
            raise ManifestRefused("the program has another manifest than the one installed: install it again")

    async def _watch(self, client: AddonClient, process: asyncio.subprocess.Process) -> None:
        """Ask for its health until it ends, or answers no more."""
        ended = self._tasks.run("wait", process.wait())
        missed = 0
        try:
            while missed < MISSED:
                done, _ = await asyncio.wait({ended}, timeout=self._around.ping_seconds)
                if done:
                    self.reason = f"it ended with status {process.returncode}"
                    return
                try:
                    self._hear(await client.health(deadline=2.0))
                    missed = 0
                except Failure as failure:
                    missed += 1
                    log.info("addon_missed_health", addon=self.manifest.id, code=failure.code, missed=missed)
            self.reason = "it did not answer"
        finally:
            ended.cancel()

    def _hear(self, answer: HealthAnswer) -> None:
        """Ages move with each question; a link that heard nothing new keeps the time that is known of it."""
        now = time.monotonic()
        told = {binding: now - max(0.0, ago) for binding, ago in list(answer.heard.items())[:MOST_LINKS]}
        known = self.heard
        self.heard = {
            binding: at if at - known.get(binding, float("-inf")) > SAME_FRAME_SECONDS else known[binding]
            for binding, at in told.items()
        }


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process: asked first, then killed, and killed at once when this is broken off."""
    try:
        with contextlib.suppress(ProcessLookupError, TimeoutError):
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    await process.wait()
