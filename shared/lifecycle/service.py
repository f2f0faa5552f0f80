from typing import Protocol, TypeVar, runtime_checkable

import structlog

log = structlog.get_logger(__name__)


@runtime_checkable
class Service(Protocol):
    """Anything long-running.

    `start` returns when the service is ready, or raises and leaves nothing behind.
    `stop` waits until everything has ended; it tolerates a service that never started and a second call.
    """

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


Started = TypeVar("Started", bound=Service)


class Stack:
    """Starts services in order and stops them in reverse; a failed start undoes what had started."""

    def __init__(self, *services: Service) -> None:
        self._services = list(services)
        self._started: list[Service] = []

    async def enter(self, service: Started) -> Started:
        """Start one more service; `stop` will stop it first."""
        await service.start()
        self._started.append(service)
        return service

    async def start(self) -> None:
        try:
            for service in self._services:
                await service.start()
                self._started.append(service)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all that started, also when one of them fails; the first failure is raised at the end."""
        first: Exception | None = None
        while self._started:
            service = self._started.pop()
            try:
                await service.stop()
            except Exception as problem:
                log.exception("service_stop_failed", service=type(service).__name__)
                first = first or problem
        if first is not None:
            raise first
