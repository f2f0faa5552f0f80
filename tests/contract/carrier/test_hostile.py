"""An enrolled peer that sends nonsense harms nobody but itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.carrier import CarrierClient, CarrierServer, ClientIdentity, ServerIdentity, frames
from shared.carrier.certs import issue, make_ca
from shared.carrier.identities import context
from shared.carrier.streams import Streams
from tests.contract.carrier import samples
from tests.contract.carrier.conftest import FRAME_LIMIT, Pki
from tests.contract.carrier.samples import Owner, Text

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
NAMES = st.sampled_from(["test.echo", "test.count", "nothing", ""])
ALMOST = st.lists(
    st.one_of(
        st.tuples(st.just(1), JUNK, NAMES, JUNK, JUNK, st.text(), st.text(), JUNK, JUNK, JUNK, JUNK),
        st.tuples(
            st.just(1),
            st.integers(0, 3),
            NAMES,
            st.just(1),
            st.just(0.5),
            st.text(),
            st.text(),
            st.just(0),
            st.just(0),
            st.just(0),
            JUNK,
        ),
        st.tuples(st.integers(0, 6), JUNK),
        JUNK,
    )
).map(msgspec.msgpack.encode)
DEEP = b"\x91" * 50_000
CLAIMS = b"\xdd\xff\xff\xff\xff"


FLOOD = 200 * 1024 * 1024
"""Bytes; far more than all buffers on the way."""


@asynccontextmanager
async def raw(
    server: CarrierServer, identity: ClientIdentity
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"https://127.0.0.1:{server.port}/carrier", ssl=context(identity), server_hostname="owner"
        ) as socket,
    ):
        yield socket


@pytest.mark.parametrize(
    "message",
    [b"", b"\xc1", DEEP, CLAIMS, b"\x91" + CLAIMS, b"text", msgspec.msgpack.encode([[1, 2]])],
    ids=["empty", "no-type", "deep", "claims", "claims-inside", "text", "short"],
)
async def test_a_message_that_is_no_batch_ends_its_connection(
    server: CarrierServer, client: CarrierClient, pki: Pki, message: bytes
) -> None:
    async with raw(server, pki.client()) as socket:
        await socket.send_bytes(message)
        ending = await socket.receive(timeout=10)
        assert ending.type is aiohttp.WSMsgType.CLOSE
        assert ending.data == aiohttp.WSCloseCode.PROTOCOL_ERROR
    assert await client.call(samples.ECHO, Text("others")) == Text("others")


async def test_text_ends_its_connection(server: CarrierServer, pki: Pki) -> None:
    async with raw(server, pki.client()) as socket:
        await socket.send_str("hello")
        assert (await socket.receive(timeout=10)).data == aiohttp.WSCloseCode.PROTOCOL_ERROR


async def test_a_message_over_the_limit_ends_its_connection(server: CarrierServer, pki: Pki) -> None:
    async with raw(server, pki.client()) as socket:
        await socket.send_bytes(bytes(FRAME_LIMIT + frames.BATCH_SIZE + frames.MESSAGE_OVERHEAD + 1))
        assert (await socket.receive(timeout=10)).data == aiohttp.WSCloseCode.MESSAGE_TOO_BIG


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), 1e300])
async def test_a_senseless_deadline_ends_its_connection(
    server: CarrierServer, pki: Pki, seconds: float
) -> None:
    request = [1, 1, "test.echo", 1, seconds, "", "", 0, 0, 0, {"text": "x"}]
    async with raw(server, pki.client()) as socket:
        await socket.send_bytes(msgspec.msgpack.encode([request]))
        assert (await socket.receive(timeout=10)).data == aiohttp.WSCloseCode.PROTOCOL_ERROR


async def test_a_number_that_is_in_use_is_refused(server: CarrierServer, owner: Owner, pki: Pki) -> None:
    request = [1, 7, "test.read", 1, 5.0, "", "", 0, 0, 0, {"text": "x"}]
    async with raw(server, pki.client()) as socket:
        await socket.send_bytes(msgspec.msgpack.encode([request, request]))
        refusal = frames.answer_decoder.decode((await socket.receive(timeout=10)).data)[0]
        assert isinstance(refusal, frames.Failed)
        assert refusal.code == "owner_unready"
        owner.gate.set()
        (reply,) = frames.answer_decoder.decode((await socket.receive(timeout=10)).data)
        assert isinstance(reply, frames.Reply)
    assert owner.finished == ["x"]


async def test_a_flood_that_nobody_reads_is_not_kept_in_memory(
    server: CarrierServer, client: CarrierClient, pki: Pki
) -> None:
    """The owner stops reading from a peer that does not read its answers."""
    request = [1, 1, "nothing", 1, 5.0, "", "", 0, 0, 0, {}]
    message = msgspec.msgpack.encode([request] * 2000)
    async with raw(server, pki.client()) as socket:
        with pytest.raises(TimeoutError):
            for _ in range(FLOOD // len(message)):
                async with asyncio.timeout(0.5):
                    await socket.send_bytes(message)
        assert await client.call(samples.ECHO, Text("others")) == Text("others")


def test_random_messages_never_stop_the_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("pki")
    make_ca(folder)
    mine, theirs = issue(folder, "owner", "main"), issue(folder, "frontend", "a")
    server_identity = ServerIdentity(mine.certificate, mine.key, mine.ca)
    client_identity = ClientIdentity(theirs.certificate, theirs.key, theirs.ca)

    with asyncio.Runner() as runner:
        owner = runner.run(_make(Owner, Streams(Path(folder))))
        server = CarrierServer(owner.handlers(), identity=server_identity, authorize=owner.authorize)
        runner.run(server.start())

        @settings(max_examples=60, deadline=None)
        @given(messages=st.lists(st.binary(max_size=200) | ALMOST, min_size=1, max_size=4))
        def attack(messages: list[bytes]) -> None:
            runner.run(_attack(server, client_identity, messages))

        attack()
        runner.run(server.stop())


async def _make(kind: type[Owner], streams: Streams) -> Owner:
    return kind(streams)


async def _attack(server: CarrierServer, identity: ClientIdentity, messages: list[bytes]) -> None:
    async with raw(server, identity) as socket:
        for message in messages:
            if not socket.closed:
                await socket.send_bytes(message)
    good = msgspec.msgpack.encode([[1, 1, "test.echo", 1, 5.0, "", "", 0, 0, 0, {"text": "x"}]])
    async with raw(server, identity) as socket:
        await socket.send_bytes(good)
        (reply,) = frames.answer_decoder.decode((await socket.receive(timeout=10)).data)
        assert isinstance(reply, frames.Reply)
