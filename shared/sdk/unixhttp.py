"""One kept HTTP client over a Unix socket, with the one question that matters: had the request left?"""

import io
from pathlib import Path

import aiohttp

from shared.sdk.errors import TooLarge
from shared.sdk.wire import MAX_BODY_BYTES

_JSON = "application/json"
#: aiohttp writes larger bodies in one piece only as a stream
_ONE_PIECE_BYTES = 1024 * 1024


class NotConnected(Exception):
    """Nobody listens on the socket; nothing was sent."""


class ReplyLost(Exception):
    """The request may have been read and executed, and no whole reply came."""


class UnixHttp:
    """A Service: `start` makes the session in the running loop, `stop` closes its connections.

    Connections are kept and unlimited, because long polls hold one each.
    """

    def __init__(self, socket_path: Path) -> None:
        self._path = socket_path
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        self._session = aiohttp.ClientSession(
            "http://addon",
            connector=aiohttp.UnixConnector(str(self._path), limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
            auto_decompress=False,
        )

    async def stop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(self, method: str, path: str, *, bearer: str, body: bytes = b"") -> tuple[int, bytes]:
        """Status and body of the reply.

        Raises NotConnected, ReplyLost, or TooLarge before anything is sent. Time is limited by the caller,
        whose cancellation closes the connection.
        """
        if len(body) > MAX_BODY_BYTES:
            raise TooLarge("the call is too large for the add-on")
        if self._session is None:
            raise NotConnected
        headers = {"Authorization": f"Bearer {bearer}", "Content-Type": _JSON}
        data = io.BytesIO(body) if len(body) > _ONE_PIECE_BYTES else body or None
        try:
            async with self._session.request(method, path, data=data, headers=headers) as reply:
                if (reply.content_length or 0) > MAX_BODY_BYTES:
                    raise ReplyLost
                return reply.status, await reply.read()
        except aiohttp.ClientConnectorError:
            raise NotConnected from None
        except (aiohttp.ClientError, OSError):
            raise ReplyLost from None
