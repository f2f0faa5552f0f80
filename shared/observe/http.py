"""The HTTP listener of a service."""

from aiohttp import web

from shared.observe.port import taken


class HttpServer:
    """Serves an application on one address. A Service; `url` is known once it has started.

    `chosen_by` is where the operator chooses the port.
    """

    def __init__(self, app: web.Application, host: str, port: int, *, chosen_by: str) -> None:
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        self._host = host
        self._port = port
        self._chosen_by = chosen_by
        self.url = ""

    async def start(self) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        try:
            await site.start()
        except OSError as problem:
            await self._runner.cleanup()
            raise taken(self._host, self._port, self._chosen_by, problem) from None
        host = "127.0.0.1" if self._host in {"0.0.0.0", "::", ""} else self._host
        self.url = f"http://{host}:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        await self._runner.cleanup()
