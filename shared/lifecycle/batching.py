"""Many small statements as few large ones: what comes while a batch is on its way forms the next."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from shared.lifecycle.tasks import Tasks

Item = TypeVar("Item")
Answer = TypeVar("Answer")

#: items of one batch
LARGEST = 500


class Batcher(Generic[Item, Answer]):
    """Collects items and hands them to `flush`, which answers each; an error of a batch goes to all of it."""

    def __init__(
        self,
        name: str,
        tasks: Tasks,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]],
        *,
        largest: int = LARGEST,
    ) -> None:
        self._name = name
        self._tasks = tasks
        self._flush = flush
        self._largest = largest
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._running = False

    async def add(self, item: Item) -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if not self._running:
            self._running = True
            self._tasks.run(self._name, self._run())
        return await answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._largest], self._waiting[self._largest :]
                await self._answer(batch)
        finally:
            self._running = False

    async def _answer(self, batch: list[tuple[Item, "asyncio.Future[Answer]"]]) -> None:
        try:
            answers = await self._flush([item for item, _ in batch])
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        except Exception as problem:  # noqa: BLE001 - whoever waits decides what it means
            for _, future in batch:
                if not future.done():
                    future.set_exception(problem)
            return
        for (_, future), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
