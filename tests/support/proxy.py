"""A TCP relay between two processes whose cable can be pulled."""

import asyncio
import socket

from shared.lifecycle import Tasks


class Relay:
    """Passes bytes on to 127.0.0.1:`target`; tests cut it, freeze it, or let nobody in."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.accepted = 0
        self.refusing = False
        self._stopped = False
        self._tasks = Tasks("relay")
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, family=socket.AF_INET)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._stopped = True
        if self._server is not None:
            self._server.close()
        self.cut()
        await self._tasks.stop()
        self.cut()

    def cut(self) -> None:
        """End every connection at once, as a crash does."""
        for writer in list(self._writers):
            writer.transport.abort()

    def freeze(self) -> None:
        """Swallow nothing and pass nothing on: the connections stay, and are silent."""
        self._flowing.clear()

    def freeze_open(self) -> None:
        """Silence the connections that are open now, for good; new ones work."""
        self._flowing.clear()
        self._flowing = asyncio.Event()
        self._flowing.set()

    def thaw(self) -> None:
        self._flowing.set()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        if self.refusing or self._stopped:
            writer.transport.abort()
            return
        self._writers.add(writer)
        self._tasks.run("connection", self._connect(reader, writer))

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            onward_reader, onward = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(onward)
        flowing = self._flowing
        self._tasks.run("there", self._pass(reader, onward, writer, flowing))
        await self._pass(onward_reader, writer, onward, flowing)

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        other: asyncio.StreamWriter,
        flowing: asyncio.Event,
    ) -> None:
        try:
            while data := await reader.read(65536):
                await flowing.wait()
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            for end in (writer, other):
                self._writers.discard(end)
                end.transport.abort()
