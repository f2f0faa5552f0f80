import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import structlog

log = structlog.get_logger(__name__)
T = TypeVar("T")


class Tasks:
    """Named asyncio tasks of one owner.

    A task that ends with an exception is logged with its name and reported to `on_failure`;
    `stop` cancels what runs and waits for it. Nothing else in the code base creates tasks.
    """

    def __init__(self, owner: str, *, on_failure: Callable[[str, BaseException], None] | None = None) -> None:
        self._owner = owner
        self._on_failure = on_failure
        self._running: set[asyncio.Task[Any]] = set()
        self._stopping = False

    def __len__(self) -> int:
        return len(self._running)

    def run(self, name: str, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start `work` as the task `<owner>.<name>`; after `stop` began it is refused with RuntimeError."""
        if self._stopping:
            work.close()
            raise RuntimeError(f"{self._owner} is stopping and starts no {name}")
        task = asyncio.get_running_loop().create_task(work, name=f"{self._owner}.{name}")
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def stop(self, *, grace: float = 0.0) -> None:
        """Wait up to `grace` seconds for the tasks, cancel the rest, and return when all have ended."""
        self._stopping = True
        running = {task for task in self._running if task is not asyncio.current_task()}
        if running and grace > 0:
            _, running = await asyncio.wait(running, timeout=grace)
        while running:
            for task in running:
                task.cancel()
            _, running = await asyncio.wait(running, timeout=1.0)

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        if task.cancelled():
            return
        problem = task.exception()
        if problem is None:
            return
        log.error("task_failed", task=task.get_name(), exc_info=problem)
        if self._on_failure is not None:
            self._on_failure(task.get_name(), problem)


def stop_event() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set, for the main coroutine of a process."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for kind in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(kind, stopped.set)
    return stopped
