"""What the probe holds. What people see and what its write tool did are on disk, so that they survive the process."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from services.addons.probe.arrivals import Arrivals
from services.addons.probe.control import FaultArgs, Message, Moment
from shared.sdk.addon import OpCall, Surroundings
from shared.sdk.errors import WireFailure
from shared.sdk.host import HostClient
from shared.sdk.ops import Inbound


class Box:
    """The messages of one binding: those that wait for its polls, and those that its bot sent."""

    def __init__(self) -> None:
        self.first = 1
        self.waiting: list[Inbound] = []
        self.arrived = asyncio.Event()
        self.sent: dict[str, Message] = {}
        self.typing = 0

    def put(self, message: Inbound) -> None:
        self.waiting.append(message)
        self.arrived.set()

    def confirm(self, offset: int) -> None:
        """Forgets everything below `offset`; the messages are numbered from 1."""
        gone = min(max(offset - self.first, 0), len(self.waiting))
        del self.waiting[:gone]
        self.first += gone
        if not self.waiting:
            self.arrived.clear()


class Journal:
    """Lines `<state> <operation>` in a file that survives the process: noted before the effect, and as it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, state: str, operation: str) -> None:
        with self._path.open("a") as file:
            file.write(f"{state} {operation}\n")

    def counts(self, state: str) -> Counter[str]:
        """How often each operation was noted as `state`."""
        if not self._path.exists():
            return Counter()
        lines = (line.split(" ", 1) for line in self._path.read_text().splitlines())
        return Counter(operation for noted, operation in lines if noted == state)


class Shown(msgspec.Struct):
    """A line of `shown.jsonl`: how a message of a binding looks from `at` on, in seconds since the epoch."""

    binding: str
    at: float
    message: Message


class World:
    def __init__(self, data: Path, host: HostClient | None) -> None:
        self.host = host
        self._shown = data / "shown.jsonl"
        self.journal = Journal(data / "operations.log")
        self.begun: set[str] = set()
        self._boxes: dict[str, Box] = {}
        self._faults: list[FaultArgs] = []
        if self._shown.exists():
            for line in self._shown.read_bytes().splitlines():
                shown = msgspec.json.decode(line, type=Shown)
                self.box(shown.binding).sent[shown.message.id] = shown.message

    def show(self, binding: str, message: Message) -> None:
        """A message appears, or looks different from now on."""
        self.box(binding).sent[message.id] = message
        with self._shown.open("ab") as file:
            file.write(msgspec.json.encode(Shown(binding, time.time(), message)) + b"\n")

    def box(self, binding: str) -> Box:
        return self._boxes.setdefault(binding, Box())

    def add_fault(self, fault: FaultArgs) -> None:
        self._faults.append(fault)

    async def suffer(self, call: str, moment: Moment) -> None:
        """The first waiting fault of this call and moment happens, if there is one."""
        fault = next((each for each in self._faults if (each.call, each.moment) == (call, moment)), None)
        if fault is None:
            return
        fault.times -= 1
        if fault.times <= 0:
            self._faults.remove(fault)
        if fault.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if fault.action == "hang":
            await asyncio.Event().wait()
        if fault.action == "raise":
            raise RuntimeError("a fault was asked for")
        raise WireFailure(fault.code, "a fault was asked for", fault.data).raised()


Call = OpCall[World]


@asynccontextmanager
async def open_world(surroundings: Surroundings) -> AsyncIterator[World]:
    arrivals = Arrivals(surroundings.data / "arrivals", surroundings.host)
    await arrivals.start()
    try:
        yield World(surroundings.data, surroundings.host)
    finally:
        await arrivals.stop()
