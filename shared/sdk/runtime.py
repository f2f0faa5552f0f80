"""The process of an add-on, as the owner starts it: `python -P -m services.addons.<name>`.

The owner says everything in the environment: see `Start`. The process ends at SIGTERM, when its parent
dies, and when its host has been silent for `HOST_SILENCE_SECONDS`, so that no add-on outlives its owner.
"""

import asyncio
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import structlog

from shared.lifecycle import process, stop_event
from shared.sdk.addon import Addon, Surroundings
from shared.sdk.host import HostClient
from shared.sdk.server import AddonServer
from shared.text.redaction import scrub_tokens

log = structlog.get_logger(__name__)

#: seconds without any call of the host, a health question included, after which an add-on ends
HOST_SILENCE_SECONDS = 5.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Start:
    """What the owner hands to a new add-on process.

    TRUNKLINE_ADDON_SOCKET         path of the socket to listen on
    TRUNKLINE_ADDON_DATA           the add-on's own folder, 0700
    TRUNKLINE_ADDON_CREDENTIAL_FD  number of an open pipe that holds the per-start credential, one line
    TRUNKLINE_HOST_SOCKET          path of the host's socket; only add-ons that push use it
    TRUNKLINE_ADDON_SILENCE_SECONDS  how long its host may be silent; `HOST_SILENCE_SECONDS` without it
    TRUNKLINE_ADDON_SETTINGS       JSON object of texts: the operator's development settings; absent in production
    """

    socket: Path
    data: Path
    credential: str
    host_socket: Path | None
    settings: Mapping[str, str]
    silence_seconds: float = HOST_SILENCE_SECONDS

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Start":
        """Reads the credential's pipe and closes it; a missing name is a KeyError, which ends the process."""
        with os.fdopen(int(environment["TRUNKLINE_ADDON_CREDENTIAL_FD"])) as pipe:
            credential = pipe.readline().strip()
        host = environment.get("TRUNKLINE_HOST_SOCKET")
        settings = environment.get("TRUNKLINE_ADDON_SETTINGS", "{}")
        return cls(
            socket=Path(environment["TRUNKLINE_ADDON_SOCKET"]),
            data=Path(environment["TRUNKLINE_ADDON_DATA"]),
            credential=credential,
            host_socket=Path(host) if host else None,
            settings=msgspec.json.decode(settings, type=dict[str, str]),
            silence_seconds=float(environment.get("TRUNKLINE_ADDON_SILENCE_SECONDS", HOST_SILENCE_SECONDS)),
        )


def run_addon(addon: Addon[Any]) -> None:
    """The main function of an add-on process; returns when the process should end."""
    _end_with_parent()
    _log_to_stderr()
    start = Start.from_environment(os.environ)
    process.run(_serve(addon, start))


async def _serve(addon: Addon[Any], start: Start) -> None:
    host = HostClient(start.host_socket, start.credential) if start.host_socket else None
    surroundings = Surroundings(data=start.data, settings=start.settings, host=host)
    server = AddonServer(addon, surroundings, socket_path=start.socket, credential=start.credential)
    stopped = stop_event()
    await server.start()
    process.settle()
    log.info("addon_started")
    try:
        reason = await _until_over(server, stopped, start.silence_seconds)
        log.info("addon_stopping", reason=reason)
    finally:
        await server.stop()


async def _until_over(server: AddonServer[Any], stopped: asyncio.Event, silence: float) -> str:
    """Waits for the signal to stop or for the host to fall silent."""
    now = asyncio.get_running_loop().time
    while (left := server.last_call + silence - now()) > 0:
        try:
            async with asyncio.timeout(left):
                await stopped.wait()
            return "signal"
        except TimeoutError:
            continue
    return "host_silent"


def _end_with_parent() -> None:
    """On Linux the kernel kills this process when the thread that started it ends, also by SIGKILL."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _log_to_stderr() -> None:
    """One JSON object a line, for the owner to read; token shapes never pass, whoever logs."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
            _scrub_line,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_ScrubbingFormatter("%(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _scrub_line(_logger: Any, _method: str, line: Any) -> str:
    return scrub_tokens(str(line))


class _ScrubbingFormatter(logging.Formatter):
    """Records of third parties, exception texts included, without token shapes."""

    def format(self, record: logging.LogRecord) -> str:
        return scrub_tokens(super().format(record))
