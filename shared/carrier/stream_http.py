"""Both ends of `/stream/<handle>`: how the bytes of a transfer travel over HTTPS."""

import ssl
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import TypedDict

import aiohttp
import msgspec
from aiohttp import web

from shared.carrier import frames
from shared.carrier.call import Peer
from shared.carrier.streams import CHUNK, Check, Streams, Ticket
from shared.domain.errors import Bug, Failure, OwnerUnreachable

_REFUSED = 409
"""The status of every refusal; its body is a `Failed` frame."""
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=30.0)
_refusal = msgspec.msgpack.Decoder(frames.Failed)
_Route = Callable[[web.Request], Awaitable[web.StreamResponse]]


class StreamOptions(TypedDict):
    """Where a stream goes, and who it must be."""

    url: str
    ssl: ssl.SSLContext
    server_hostname: str
    headers: dict[str, str]


def stream_routes(streams: Streams, peer_of: Callable[[web.Request], Peer]) -> list[web.RouteDef]:
    """The owner's end; `peer_of` refuses strangers."""

    async def put(request: web.Request) -> web.StreamResponse:
        chunks = request.content.iter_chunked(CHUNK)
        await streams.receive(request.match_info["handle"], peer_of(request), chunks)
        return web.Response(status=204)

    async def get(request: web.Request) -> web.StreamResponse:
        ticket, chunks = streams.send(request.match_info["handle"], peer_of(request))
        response = web.StreamResponse()
        response.content_length = ticket.size
        await response.prepare(request)
        async for chunk in chunks:
            await response.write(chunk)
        await response.write_eof()
        return response

    return [web.put("/stream/{handle}", _telling(put)), web.get("/stream/{handle}", _telling(get))]


def _telling(route: _Route) -> _Route:
    async def told(request: web.Request) -> web.StreamResponse:
        try:
            return await route(request)
        except Failure as failure:
            return web.Response(status=_REFUSED, body=frames.encode(frames.failed(0, failure)))

    return told


async def upload(
    session: aiohttp.ClientSession, options: StreamOptions, chunks: AsyncIterable[bytes]
) -> None:
    """The caller's end of `PUT`; chunked, so that too few bytes are told at once instead of awaited."""
    try:
        async with session.put(**options, data=aiter(chunks), timeout=_TIMEOUT) as reply:
            await _accept(reply)
    except (aiohttp.ClientError, OSError, TimeoutError) as problem:
        raise OwnerUnreachable("the owner went away while a file was sent") from problem


async def download(
    session: aiohttp.ClientSession, options: StreamOptions, ticket: Ticket
) -> AsyncIterator[bytes]:
    """The caller's end of `GET`."""
    check = Check(ticket)
    try:
        async with session.get(**options, timeout=_TIMEOUT) as reply:
            await _accept(reply)
            async for chunk in reply.content.iter_chunked(CHUNK):
                check.take(chunk)
                yield chunk
    except (aiohttp.ClientError, OSError, TimeoutError) as problem:
        raise OwnerUnreachable("the owner went away while a file was fetched") from problem
    check.finish()


async def _accept(reply: aiohttp.ClientResponse) -> None:
    if reply.status == _REFUSED:
        try:
            refusal = _refusal.decode(await reply.read())
        except frames.UNREADABLE:
            raise Bug("the owner refused a stream and did not say why") from None
        raise frames.raised(refusal)
    if not reply.ok:
        raise OwnerUnreachable(f"the owner answered a stream with {reply.status}")
