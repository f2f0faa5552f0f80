"""The bus inside one process."""

from itertools import chain
from typing import TypeVar

import msgspec

from shared.bus.bus import Handler, Subscription, encode
from shared.bus.subjects import ANY, Subject
from shared.lifecycle import Tasks

Payload = TypeVar("Payload", bound=msgspec.Struct)


class MemoryBus:
    """Signals are encoded and decoded as on the wire, so that no object is shared."""

    def __init__(self) -> None:
        self.dropped = 0
        self._tasks = Tasks("bus")
        self._started = False
        self._subscriptions: dict[str, dict[str, list[Subscription]]] = {}

    @property
    def connected(self) -> bool:
        return self._started

    async def start(self) -> None:
        self._started = True
        for groups in self._subscriptions.values():
            for member in chain.from_iterable(groups.values()):
                self._begin(member)

    async def stop(self) -> None:
        self._started = False
        await self._tasks.stop()

    def publish(self, subject: Subject[Payload], payload: Payload, *, key: str = "") -> None:
        address = subject.target(key)
        if not self._started:
            self.dropped += 1
            return
        data = encode(payload)
        for place in {address, subject.address(ANY)}:
            for queue, members in self._subscriptions.get(place, {}).items():
                self._pass(queue, members, address, data)

    def subscribe(
        self, subject: Subject[Payload], handler: Handler[Payload], *, key: str = ANY, queue: str = ""
    ) -> Subscription:
        made = Subscription(subject, handler, key=key, queue=queue)
        members = self._subscriptions.setdefault(made.address, {}).setdefault(queue, [])
        members.append(made)
        made.on_cancel = lambda: self._remove(made)
        if self._started:
            self._begin(made)
        return made

    def _remove(self, member: Subscription) -> None:
        """Forget a subscription, and its address with the last one: pages follow one chat after another."""
        groups = self._subscriptions.get(member.address, {})
        members = groups.get(member.queue, [])
        if member in members:
            members.remove(member)
        if not members:
            groups.pop(member.queue, None)
        if not groups:
            self._subscriptions.pop(member.address, None)

    def _begin(self, member: Subscription) -> None:
        member.begin(self._tasks)
        member.activate()

    def _pass(self, queue: str, members: list[Subscription], address: str, data: bytes) -> None:
        if queue and members:
            # The one whose turn it is goes to the end of the line.
            members.append(members.pop(0))
            members[-1].put(address, data)
            return
        for member in members:
            member.put(address, data)
