"""What goes wrong in a cluster that runs for long: lost connections, a platform that stumbles, killed frontends."""

import itertools
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from tests.support.cluster import Cluster

#: faults of the platform that leave every answer visible: an edit is repeated, a wait is kept, a lost reply only hides
#: that a message is there
STUMBLES: tuple[dict[str, Any], ...] = (
    {"method": "sendMessage", "status": 429, "body": {
        "ok": False, "error_code": 429, "description": "Too Many Requests: retry after 1",
        "parameters": {"retry_after": 1},
    }},
    {"method": "editMessageText", "status": 502, "body": "Bad Gateway"},
    {"method": "sendMessage", "drop": "after"},
    {"method": "editMessageText", "drop": "after"},
    {"method": "editMessageText", "drop": "before"},
    {"method": "getUpdates", "status": 500, "body": "Internal Server Error"},
)  # fmt: skip


class Trouble:
    """Each call makes the next one of its sort happen; `count` says how many of each there were."""

    def __init__(self, cluster: Cluster, *, bots: int) -> None:
        self.count = {"reconnects": 0, "faults": 0, "kills": 0}
        self._cluster = cluster
        self._bots = bots
        self._stumbles = itertools.cycle(STUMBLES)
        self._ways: Iterator[Callable[[], Awaitable[None]]] = itertools.cycle(
            (self._cut_polls, self._end_database_sessions, self._restart_bus)
        )
        self._victims = itertools.count()

    async def reconnect(self) -> None:
        """Cut the connections to the platform, to the database or to the bus, in turn."""
        self.count["reconnects"] += 1
        await next(self._ways)()

    async def stumble(self) -> None:
        self.count["faults"] += 1
        fault = dict(next(self._stumbles))
        await self._cluster.sim.fault(fault.pop("method"), **fault)

    async def kill_frontend(self) -> None:
        """SIGKILL to one frontend after the other."""
        self.count["kills"] += 1
        pids = self._cluster.frontend_pids()
        os.kill(pids[next(self._victims) % len(pids)], signal.SIGKILL)

    async def over(self) -> None:
        """Nothing more goes wrong."""
        await self._cluster.sim.forget_faults()

    async def _cut_polls(self) -> None:
        await self._cluster.sim.fault("getUpdates", drop="before", times=self._bots)

    async def _end_database_sessions(self) -> None:
        await self._cluster.fetchval(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE 'trunkline %'"
        )

    async def _restart_bus(self) -> None:
        os.kill(self._cluster.nats_pid, signal.SIGKILL)
