"""The test's end of the points: arms them, hears of a process that has reached one, and lets it go on."""

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

from shared.lifecycle import Tasks
from shared.lifecycle.points import Point


@dataclass(frozen=True, slots=True)
class Hit:
    """A process that waits at a point. `name` is `frontend` or `owner`."""

    point: Point
    pid: int
    name: str
    writer: asyncio.StreamWriter

    def go(self) -> None:
        """Let everything that waits in the process go on; a process that is gone needs no word."""
        if not self.writer.is_closing():
            self.writer.write(b'{"go": true}\n')


class Gatekeeper:
    """A Service on a Unix socket at `path`; `hits` fills while points are armed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.hits: asyncio.Queue[Hit] = asyncio.Queue()
        self._armed: dict[str, int] = {}
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks = Tasks("gate")
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, str(self.path))

    async def stop(self) -> None:
        self.disarm()
        for writer in list(self._writers):
            writer.transport.abort()
        if self._server is not None:
            self._server.close()
        await self._tasks.stop()

    def arm(self, point: Point) -> None:
        """The next time that any process reaches `point` it waits there; the first one is a hit."""
        self._armed = {point: 1}
        self._tell()

    def disarm(self) -> None:
        """Nothing is armed any more, and whoever waits goes on."""
        self._armed = {}
        self._tell()
        while not self.hits.empty():
            self.hits.get_nowait().go()

    def _tell(self) -> None:
        for writer in self._writers:
            writer.write(json.dumps({"arm": self._armed}).encode() + b"\n")

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.run("line", self._listen(reader, writer))

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            hello = json.loads(await reader.readline() or b"{}")
            self._writers.add(writer)
            writer.write(json.dumps({"arm": self._armed}).encode() + b"\n")
            while line := await reader.readline():
                hit = Hit(Point(json.loads(line)["reached"]), hello["pid"], hello["hello"], writer)
                if self._armed:
                    self._armed = {}
                    self._tell()
                    self.hits.put_nowait(hit)
                else:
                    hit.go()  # another process was there first
        except ConnectionError:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()
