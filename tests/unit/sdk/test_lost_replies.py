"""What the host learns when an add-on ends in the middle of a call."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from shared.sdk.client import AddonClient
from shared.sdk.errors import Deadline, Failure, OutcomeUnknown, PlatformUnavailable
from shared.sdk.ops import EditArgs, PollArgs, SendArgs, ToolCall, TypingArgs
from tests.support.until import until

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def client_of(folder: Path, behave: Behaviour) -> AsyncIterator[AddonClient]:
    """A client of something that treats each connection as `behave` says, all of them closed at the end."""
    running: set[asyncio.StreamWriter] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        running.add(writer)
        try:
            await behave(reader, writer)
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
            running.discard(writer)

    server = await asyncio.start_unix_server(accept, str(folder / "s"))
    client = AddonClient(folder / "s", "c")
    await client.start()
    try:
        yield client
    finally:
        await client.stop()
        server.close()
        await server.wait_closed()
        await until(lambda: not running)


async def reads_and_ends(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()


async def stands_still(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read()


@pytest.fixture
async def dying(tmp_path: Path) -> AsyncIterator[AddonClient]:
    """A client of an add-on that reads each call and ends."""
    async with client_of(tmp_path, reads_and_ends) as client:
        yield client


async def test_a_send_may_have_been_seen(dying: AddonClient) -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        await dying.op("send", SendArgs(chat="1", text="hi", operation="op-7"))
    assert unknown.value.operation == "op-7"


async def test_an_applied_tool_may_have_had_its_effect(dying: AddonClient) -> None:
    with pytest.raises(OutcomeUnknown) as unknown:
        await dying.tool("tool", ToolCall("apply", operation="op-8"))
    assert unknown.value.operation == "op-8"


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("poll", PollArgs()),
        ("edit", EditArgs(chat="1", id="2", text="x")),
        ("typing", TypingArgs(chat="1")),
    ],
)
async def test_what_may_be_repeated_is_unavailable(
    dying: AddonClient, op: str, args: PollArgs | EditArgs | TypingArgs
) -> None:
    with pytest.raises(PlatformUnavailable):
        await dying.op(op, args)
    with pytest.raises(PlatformUnavailable):
        await dying.tool("tool", ToolCall("read"))


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        ("send", SendArgs(chat="1", text="hi"), OutcomeUnknown),
        ("typing", TypingArgs(chat="1"), Deadline),
    ],
)
async def test_an_add_on_that_stands_still_is_given_up_shortly_after_the_deadline(
    tmp_path: Path, op: str, args: SendArgs | TypingArgs, expected: type[Failure]
) -> None:
    async with client_of(tmp_path, stands_still) as client:
        with pytest.raises(expected):
            await client.op(op, args, deadline=0.0)
