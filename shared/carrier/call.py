"""Who calls, for whom, and until when."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class Peer:
    """A process at the other end, as its certificate names it.

    `instance` tells replicas apart that share one certificate; it is what the peer says of itself and grants nothing.
    """

    role: str
    name: str
    instance: str = ""


class Call(msgspec.Struct, frozen=True, eq=False):
    """The circumstances of one running call, as its handler sees them.

    `deadline` is on `time.monotonic()`. `actor` is the acting user, or empty; `operation` is the ID of a write.
    `term` is a leader's term, (`turn`, `epoch`) name the turn on whose behalf the call is made; 0 means none.
    """

    peer: Peer
    deadline: float
    actor: str
    operation: str
    term: int
    turn: int
    epoch: int
    emit: Callable[[msgspec.Struct], Awaitable[None]]

    @property
    def remaining(self) -> float:
        """Seconds until the deadline, never below zero."""
        return max(0.0, self.deadline - time.monotonic())

    async def progress(self, payload: msgspec.Struct) -> None:
        """Report to the caller; waits while the connection is full, and is lost when the caller has gone."""
        await self.emit(payload)
