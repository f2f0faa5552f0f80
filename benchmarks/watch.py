"""What the processes of a cluster hold, and how late their event loops are, sampled while they work."""

import asyncio
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp
import psutil
from prometheus_client.parser import text_string_to_metric_families

from shared.lifecycle import Tasks
from tests.support.cluster import Cluster

MIB = 1024 * 1024
#: share of a series that is start-up and does not count, and the share at either end that is compared
WARM, END = 0.2, 0.1
#: samples below which a series says nothing
FEWEST = 10


@dataclass(slots=True)
class Series:
    """One process: (seconds, resident MiB) since it was first seen, and the buckets of its loop's delay.

    `buckets` are (upper bound in seconds, observations up to it), as the process last told them.
    """

    name: str
    pid: int
    points: list[tuple[float, float]] = field(default_factory=list)
    buckets: Sequence[tuple[float, float]] = ()

    @property
    def minutes(self) -> float:
        return (self.points[-1][0] - self.points[0][0]) / 60

    @property
    def judged(self) -> bool:
        return len(self._warm) >= FEWEST

    @property
    def growth(self) -> float:
        """MiB from the first tenth after the start-up to the last one, by their medians."""
        held = [mib for _, mib in self._warm]
        end = max(1, round(len(held) * END))
        return statistics.median(held[-end:]) - statistics.median(held[:end])

    @property
    def slope(self) -> float:
        """MiB an hour, of the straight line through what comes after the start-up."""
        seconds, held = zip(*self._warm, strict=True)
        return statistics.linear_regression(seconds, held).slope * 3600

    def delay(self, share: float) -> float | None:
        """The delay in seconds that `share` of the observations keep; None for a process that tells of none."""
        total = self.buckets[-1][1] if self.buckets else 0.0
        if not total:
            return None
        below, lower = 0.0, 0.0
        for bound, count in self.buckets:
            if count >= share * total:
                if bound == float("inf"):
                    return bound
                return lower + (bound - lower) * (share * total - below) / (count - below)
            below, lower = count, bound
        return None

    @property
    def _warm(self) -> list[tuple[float, float]]:
        return self.points[int(len(self.points) * WARM) :]


class Watch:
    """Samples every `seconds` seconds. A process that died begins a new series with its successor. A Service."""

    def __init__(self, cluster: Cluster, *, seconds: float) -> None:
        self.series: dict[int, Series] = {}
        self._cluster = cluster
        self._seconds = seconds
        self._tasks = Tasks("watch")
        self._http: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        self._http = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5))
        self._tasks.run("sample", self._sample_for_ever())

    async def stop(self) -> None:
        """One last look, then no more."""
        await self._tasks.stop()
        if self._http is not None:
            await self._sample()
            await self._http.close()

    async def _sample_for_ever(self) -> None:
        while True:
            await self._sample()
            await asyncio.sleep(self._seconds)

    async def _sample(self) -> None:
        for name, pid, url in self._processes():
            try:
                held = psutil.Process(pid).memory_info().rss
            except psutil.NoSuchProcess:
                continue  # it was killed, and its successor is not in run.json yet
            series = self.series.setdefault(pid, Series(name, pid))
            series.points.append((time.monotonic(), held / MIB))
            if url:
                series.buckets = await self._buckets(url) or series.buckets

    def _processes(self) -> list[tuple[str, int, str]]:
        """Name, process and address of the metrics (empty where there is none) of all that matters."""
        cluster, run = self._cluster, self._cluster.run
        found = [(entry["id"].rpartition("-")[0], entry["pid"], entry["url"]) for entry in run["frontends"]]
        found.append(("owner", run["owner"]["pid"], run["owner"]["url"]))
        found.append(("up", cluster.pid, ""))
        for process in cluster.processes():
            try:
                words = process.cmdline()
            except psutil.Error:
                continue
            addon = next((word for word in words if word.startswith("services.addons.")), "")
            if addon:
                found.append((f"add-on {addon.rpartition('.')[2]}", process.pid, ""))
            elif "sim" in words[1:6]:
                found.append(("simulators", process.pid, ""))
        return found

    async def _buckets(self, url: str) -> list[tuple[float, float]]:
        assert self._http is not None
        try:
            async with self._http.get(f"{url}/metrics") as response:
                text = await response.text()
        except (aiohttp.ClientError, TimeoutError):
            return []
        return [
            (float(sample.labels["le"]), sample.value)
            for family in text_string_to_metric_families(text)
            if family.name == "trunkline_event_loop_delay_seconds"
            for sample in family.samples
            if sample.name.endswith("_bucket")
        ]
