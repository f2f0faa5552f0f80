"""Messages that arrive from outside, for kinds that push: a file each, which goes when the host has stored it.

Whoever writes one moves it into the folder whole. As on a platform that redelivers, a message whose way to the host
broke off is handed over again.
"""

import asyncio
from pathlib import Path

import msgspec

from shared.lifecycle import Tasks
from shared.sdk.errors import Failure
from shared.sdk.host import HostClient
from shared.sdk.ops import Inbound

#: seconds between looks into the folder
LOOK = 0.05


class Arrival(msgspec.Struct):
    binding: str
    message: Inbound


class Arrivals:
    """A Service. `folder` may be missing, and nothing arrives; without a host nothing is handed over."""

    def __init__(self, folder: Path, host: HostClient | None) -> None:
        self._folder = folder
        self._host = host
        self._tasks = Tasks("arrivals")

    async def start(self) -> None:
        if self._host is not None:
            self._tasks.run("watch", self._watch(self._host))

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _watch(self, host: HostClient) -> None:
        while True:
            for path in sorted(self._folder.glob("*.json")):
                arrival = msgspec.json.decode(path.read_bytes(), type=Arrival)
                try:
                    await host.inbound(arrival.binding, arrival.message)
                except Failure:
                    break  # again, in order
                path.unlink()
            await asyncio.sleep(LOOK)
