"""Running one service as a process: started, announced, stopped by a signal."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Annotated, Any, Protocol

import typer

from services.cli.local import tether
from services.cli.problems import expected

ReadyFd = Annotated[
    int | None, typer.Option("--ready-fd", hidden=True, help="where to write one JSON line when ready")
]
Parent = Annotated[
    int | None, typer.Option("--end-with-parent", hidden=True, help="end when this process has ended")
]


class Part(Protocol):
    """What a process runs: a Service that is ready when `start` returns, and `facts` about it from then on."""

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    @property
    def facts(self) -> dict[str, Any]: ...


def serve(compose: Callable[[], Part], *, ready_fd: int | None = None, parent: int | None = None) -> None:
    """Run what `compose` makes until SIGTERM or SIGINT.

    With `ready_fd` one JSON line is written there: `{"facts": {...}}` when ready, or `{"problem", "code"}` when
    an expected problem ends the start, which is raised as well.
    """
    _guarded(lambda: _run(compose(), ready_fd), ready_fd, parent)


def once(
    work: Callable[[], Coroutine[Any, Any, dict[str, Any]]], *, ready_fd: int | None, parent: int | None
) -> None:
    """Do `work`, and tell its result as `serve` tells facts."""

    async def run() -> None:
        _tell(ready_fd, {"facts": await work()})

    _guarded(run, ready_fd, parent)


def _guarded(run: Callable[[], Coroutine[Any, Any, None]], ready_fd: int | None, parent: int | None) -> None:
    from shared.lifecycle import process

    if parent is not None:
        tether.end_with_parent(parent)
    try:
        process.run(run())
    except Exception as problem:
        refused = expected(problem)
        if refused is not None:
            _tell(ready_fd, {"problem": str(refused), "code": refused.code})
        raise


async def _run(part: Part, ready_fd: int | None) -> None:
    from shared.lifecycle import process
    from shared.observe.loop import LoopWatch

    interrupts, watch = Interrupts(), LoopWatch()
    try:
        with interrupts.breaking_off():
            await part.start()
        process.settle()
        await watch.start()
        if not interrupts.stopped.is_set():
            _tell(ready_fd, {"facts": part.facts})
        await interrupts.stopped.wait()
    finally:
        await watch.stop()
        await part.stop()


class Interrupts:
    """The first signal asks the process to stop; the second one ends it at once."""

    def __init__(self, *kinds: signal.Signals) -> None:
        self.stopped = asyncio.Event()
        self._starting: asyncio.Task[Any] | None = None
        loop = asyncio.get_running_loop()
        for kind in kinds or (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(kind, self._received)

    @contextlib.contextmanager
    def breaking_off(self) -> Iterator[None]:
        """What runs inside is cancelled by the first signal, and that is no failure."""
        self._starting = asyncio.current_task()
        try:
            yield
        except asyncio.CancelledError:
            if not self.stopped.is_set():
                raise
        finally:
            self._starting = None

    def _received(self) -> None:
        if self.stopped.is_set():
            self.at_once()
        self.stopped.set()
        if self._starting is not None:
            self._starting.cancel()

    def at_once(self) -> None:
        os._exit(1)


def _tell(ready_fd: int | None, line: dict[str, Any]) -> None:
    if ready_fd is None:
        return
    with contextlib.suppress(OSError):  # nobody reads any more
        os.write(ready_fd, json.dumps(line).encode() + b"\n")
        os.close(ready_fd)
