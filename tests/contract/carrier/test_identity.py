"""Who may connect, and renewing certificates while calls run."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes

from shared.carrier import CarrierClient, CarrierServer, ClientIdentity, ServerIdentity
from shared.carrier.certs import issue, make_ca
from shared.carrier.identities import context, fingerprint
from shared.domain import errors
from tests.contract.carrier import samples
from tests.contract.carrier.conftest import Pki
from tests.contract.carrier.samples import Owner, Text


def pin(identity: ClientIdentity | ServerIdentity) -> str:
    certificate = x509.load_pem_x509_certificate(identity.certificate.read_bytes())
    return certificate.fingerprint(hashes.SHA256()).hex()


@asynccontextmanager
async def running(owner: Owner, identity: ServerIdentity) -> AsyncIterator[CarrierServer]:
    server = CarrierServer(owner.handlers(), identity=identity, authorize=owner.authorize, stop_grace=0.0)
    await server.start()
    yield server
    await server.stop()


@asynccontextmanager
async def connecting(
    server: CarrierServer, identity: ClientIdentity, *, grace: float = 5.0
) -> AsyncIterator[CarrierClient]:
    client = CarrierClient(
        "127.0.0.1", server.port, identity, connections=1, connect_grace=grace, backoff=(0.01, 0.05)
    )
    await client.start()
    yield client
    await client.stop()


async def refused(server: CarrierServer, identity: ClientIdentity) -> None:
    async with connecting(server, identity, grace=0.3) as client:
        with pytest.raises(errors.OwnerUnreachable):
            await client.call(samples.ECHO, Text())


async def test_a_peer_of_another_ca_is_refused_in_the_handshake(
    server: CarrierServer, pki: Pki, tmp_path: Path
) -> None:
    make_ca(tmp_path / "strangers")
    stranger = issue(tmp_path / "strangers", "frontend", "a")
    await refused(server, ClientIdentity(stranger.certificate, stranger.key, pki.folder / "ca.pem"))


async def test_a_peer_without_a_certificate_is_refused_in_the_handshake(
    server: CarrierServer, pki: Pki
) -> None:
    bare = ssl.create_default_context(cafile=str(pki.folder / "ca.pem"))
    async with aiohttp.ClientSession() as session:
        with pytest.raises((aiohttp.ClientError, ssl.SSLError, ConnectionError)):
            await session.get(f"https://127.0.0.1:{server.port}/carrier", ssl=bare, server_hostname="owner")


async def test_a_certificate_of_another_role_does_not_pass_as_a_frontend(
    server: CarrierServer, pki: Pki
) -> None:
    owner = issue(pki.folder, "owner", "second")
    await refused(server, ClientIdentity(owner.certificate, owner.key, owner.ca))


async def test_a_frontend_cannot_pose_as_the_owner(owner: Owner, pki: Pki) -> None:
    posing = pki.client("evil")
    identity = ServerIdentity(posing.certificate, posing.key, posing.ca)
    async with running(owner, identity) as server:
        await refused(server, pki.client("a"))


async def test_pinned_frontends_are_the_only_ones(owner: Owner, pki: Pki) -> None:
    known, other = pki.client("known"), pki.client("other")
    async with running(owner, pki.server(pins=frozenset({pin(known)}))) as server:
        await refused(server, other)
        async with connecting(server, known) as client:
            assert await client.call(samples.ECHO, Text("in")) == Text("in")


async def test_a_pinned_owner_is_the_only_one(owner: Owner, pki: Pki) -> None:
    identity = pki.server()
    async with running(owner, identity) as server:
        await refused(server, pki.client(pins=frozenset({"0" * 64})))
        async with connecting(server, pki.client(pins=frozenset({pin(identity)}))) as client:
            assert await client.call(samples.ECHO, Text("in")) == Text("in")


async def test_a_stranger_without_a_websocket_learns_nothing(server: CarrierServer, pki: Pki) -> None:
    tls = context(pki.client())
    async with aiohttp.ClientSession() as session:
        for path, status in (("/", 404), ("/carrier", 400), ("/stream/none", 409)):
            url = f"https://127.0.0.1:{server.port}{path}"
            async with session.get(url, ssl=tls, server_hostname="owner") as reply:
                assert reply.status == status


async def test_certificates_rotate_without_a_failed_call(
    server: CarrierServer, client: CarrierClient, pki: Pki
) -> None:
    """Calls run all the time while both ends and, in the end, the connections are renewed."""
    done = asyncio.Event()
    answered = 0

    async def calling() -> None:
        nonlocal answered
        while not done.is_set():
            assert await client.call(samples.ECHO, Text("x")) == Text("x")
            answered += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(calling())
        for _ in range(3):
            fresh = pki.server()
            server.reload()
            async with connecting(server, pki.client()) as newcomer:
                before = answered
                assert await newcomer.call(samples.ECHO, Text("new")) == Text("new")
                while answered < before + 20:
                    await newcomer.call(samples.ECHO, Text())
            assert await shown(server, pki) == pin(fresh)
        done.set()


async def shown(server: CarrierServer, pki: Pki) -> str:
    """The fingerprint of what the server shows to a new connection."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", server.port, ssl=context(pki.client()), server_hostname="owner"
    )
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    del reader
    return fingerprint(der)


async def test_a_client_that_names_no_server_is_shown_the_renewed_certificate(
    server: CarrierServer, pki: Pki
) -> None:
    fresh = pki.server()
    server.reload()
    tls = context(pki.client())
    tls.check_hostname = False
    _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=tls, server_hostname="")
    der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    assert fingerprint(der) == pin(fresh)


async def test_a_renewal_is_found_without_being_told(owner: Owner, pki: Pki) -> None:
    server = CarrierServer(
        owner.handlers(), identity=pki.server(), authorize=owner.authorize, reload_interval=0.01
    )
    await server.start()
    fresh = pki.server()
    async with asyncio.timeout(10):
        while await shown(server, pki) != pin(fresh):
            pass
    await server.stop()


async def test_a_broken_renewal_keeps_the_old_certificate(server: CarrierServer, pki: Pki) -> None:
    key = pki.folder / "owner-main.key"
    whole = key.read_bytes()
    key.write_bytes(b"half a key")
    server.reload()
    async with connecting(server, pki.client()) as client:
        assert await client.call(samples.ECHO, Text("old")) == Text("old")
    key.write_bytes(whole)
    server.reload()
    async with connecting(server, pki.client()) as client:
        assert await client.call(samples.ECHO, Text("new")) == Text("new")


async def test_a_replaced_ca_shuts_out_whom_only_the_old_one_knew(
    server: CarrierServer, pki: Pki, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    pki.client()
    for name in ("frontend-a.pem", "frontend-a.key"):
        (old / name).write_bytes((pki.folder / name).read_bytes())
    (pki.folder / "ca.key").unlink()
    make_ca(pki.folder)
    pki.server()
    server.reload()
    await refused(
        server, ClientIdentity(old / "frontend-a.pem", old / "frontend-a.key", pki.folder / "ca.pem")
    )
    async with connecting(server, pki.client()) as client:
        assert await client.call(samples.ECHO, Text("in")) == Text("in")
