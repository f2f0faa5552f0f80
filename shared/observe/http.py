"""The HTTP listener of a service."""

import errno

from aiohttp import web


class PortTaken(Exception):
    """The port cannot be listened on; the text says which and what to do."""


class HttpServer:
    """Serves an application on one address. A Service; `url` is known once it has started."""

    def __init__(self, app: web.Application, host: str, port: int) -> None:
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        self._host = host
        self._port = port
        self.url = ""

    async def start(self) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        try:
            await site.start()
        except OSError as problem:
            await self._runner.cleanup()
            if problem.errno in {errno.EADDRINUSE, errno.EACCES}:
                why = (
                    "is taken by another program"
                    if problem.errno == errno.EADDRINUSE
                    else "needs more rights"
                )
                raise PortTaken(f"port {self._port} on {self._host} {why}: choose another port") from None
            raise PortTaken(f"{self._host}:{self._port} cannot be listened on: {problem.strerror}") from None
        host = "127.0.0.1" if self._host in {"0.0.0.0", "::", ""} else self._host
        self.url = f"http://{host}:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        await self._runner.cleanup()
