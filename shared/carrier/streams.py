"""Bytes of files between a frontend and the owner, beside the calls.

A call agrees on a transfer and answers with a `Ticket`; the bytes then travel as one HTTPS stream (`PUT` or `GET`
`/stream/<handle>`), or directly in one process. A ticket is for one peer, one direction and one transfer, lives
for a short time, and dies with the owner. Size and hash are checked where the bytes arrive.
"""

import asyncio
import hashlib
import os
import secrets
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable
from pathlib import Path
from typing import BinaryIO

import msgspec

from shared.carrier.call import Peer
from shared.domain.errors import Bug, Denied, TooLarge

CHUNK = 256 * 1024
"""Bytes that are moved at once."""


class Ticket(msgspec.Struct, frozen=True):
    """The right to move the bytes of one file once; part of requests and replies. `size` is in bytes."""

    handle: str
    size: int
    sha256: str


class Check:
    """Counts and hashes what passes, against what the ticket says."""

    def __init__(self, ticket: Ticket) -> None:
        self._ticket = ticket
        self._size = 0
        self._hash = hashlib.sha256()

    def take(self, chunk: bytes) -> None:
        self._size += len(chunk)
        if self._size > self._ticket.size:
            raise TooLarge(f"the file has more than the {self._ticket.size} bytes that were agreed on")
        self._hash.update(chunk)

    def finish(self) -> None:
        """Raises Bug when something is missing or was changed on the way."""
        if self._size != self._ticket.size or self._hash.hexdigest() != self._ticket.sha256:
            raise Bug("the file did not arrive as it was sent")


class _Transfer(msgspec.Struct):
    ticket: Ticket
    peer: Peer
    path: Path
    outgoing: bool
    expires: float
    state: str = "open"
    """`open`, `moving`, or `arrived` (an incoming file that waits to be taken)."""


class Streams:
    """The owner's open transfers. Incoming files lie in `folder`; `lifetime` of a ticket is in seconds."""

    def __init__(
        self,
        folder: Path,
        *,
        lifetime: float = 60.0,
        size_limit: int = 2 * 1024**3,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._folder = folder
        self._lifetime = lifetime
        self._size_limit = size_limit
        self._transfers: dict[str, _Transfer] = {}

    async def offer(self, path: Path, peer: Peer) -> Ticket:
        """Let `peer` fetch a file, which must stay as it is until it was fetched."""
        size, sha256 = await asyncio.to_thread(_measure, path)
        return self._open(size, sha256, peer, path, outgoing=True)

    def expect(self, size: int, sha256: str, peer: Peer) -> Ticket:
        """Let `peer` send a file of `size` bytes; raises TooLarge."""
        if not 0 <= size <= self._size_limit:
            raise TooLarge(f"a file of {size} bytes is over the limit of {self._size_limit}")
        return self._open(size, sha256, peer, self._folder / secrets.token_hex(16), outgoing=False)

    def take(self, handle: str, peer: Peer) -> Path:
        """The file that `peer` has sent; whoever takes it deletes it. Raises Denied when there is none."""
        transfer = self._find(handle, peer, "arrived", outgoing=False)
        del self._transfers[handle]
        return transfer.path

    async def receive(self, handle: str, peer: Peer, chunks: AsyncIterable[bytes]) -> None:
        """Store what `peer` sends; a file that is not what was agreed on is deleted and its ticket spent."""
        transfer = self._find(handle, peer, "open", outgoing=False)
        transfer.state = "moving"
        try:
            await _store(transfer, chunks)
        except BaseException:
            self._drop(handle)
            raise
        transfer.state = "arrived"
        transfer.expires = self._clock() + self._lifetime

    def send(self, handle: str, peer: Peer) -> tuple[Ticket, AsyncIterator[bytes]]:
        """The bytes of an offered file, which spends the ticket; raises Denied."""
        transfer = self._find(handle, peer, "open", outgoing=True)
        del self._transfers[handle]
        return transfer.ticket, read_chunks(transfer.path)

    def close(self) -> None:
        """Forget all transfers and delete the files that nobody took."""
        for handle in list(self._transfers):
            self._drop(handle)

    def _open(self, size: int, sha256: str, peer: Peer, path: Path, *, outgoing: bool) -> Ticket:
        now = self._clock()
        for handle, transfer in list(self._transfers.items()):
            if transfer.expires < now and transfer.state != "moving":
                self._drop(handle)
        ticket = Ticket(secrets.token_urlsafe(24), size, sha256)
        self._transfers[ticket.handle] = _Transfer(ticket, peer, path, outgoing, now + self._lifetime)
        return ticket

    def _find(self, handle: str, peer: Peer, state: str, *, outgoing: bool) -> _Transfer:
        found = self._transfers.get(handle)
        if (
            found is None
            or (found.peer, found.state, found.outgoing) != (peer, state, outgoing)
            or found.expires < self._clock()
        ):
            raise Denied("this handle is unknown, was used, has expired, or is not yours")
        return found

    def _drop(self, handle: str) -> None:
        transfer = self._transfers.pop(handle)
        if not transfer.outgoing:
            transfer.path.unlink(missing_ok=True)


async def read_chunks(path: Path) -> AsyncIterator[bytes]:
    """The bytes of a file, read outside the event loop."""
    with await asyncio.to_thread(path.open, "rb") as file:
        while chunk := await asyncio.to_thread(file.read, CHUNK):
            yield chunk


async def _store(transfer: _Transfer, chunks: AsyncIterable[bytes]) -> None:
    check = Check(transfer.ticket)
    with await asyncio.to_thread(_create, transfer.path) as file:
        async for chunk in chunks:
            check.take(chunk)
            await asyncio.to_thread(file.write, chunk)
    check.finish()


def _create(path: Path) -> BinaryIO:
    """A new file that is its owner's alone from the first byte."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def _measure(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return file.tell(), digest.hexdigest()
