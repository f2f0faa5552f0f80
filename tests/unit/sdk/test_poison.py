"""One message of an add-on that no host can use is left out, so that it cannot fail the same poll for ever."""

from typing import Any

import pytest
import structlog
from aiohttp import web

from shared.sdk.client import AddonClient
from shared.sdk.errors import Bug
from shared.sdk.ops import Inbound, Person, PollArgs

GOOD = b'{"chat": "1", "sender": {"id": "2"}, "id": "3", "text": "good"}'


@pytest.fixture
async def answer(tmp_path: Any) -> Any:
    """A function that has a poll answered with these bytes and returns what the host makes of it."""
    said = b""

    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=b'{"result":' + said + b"}")

    app = web.Application()
    app.router.add_post("/v1/op/poll", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "s")).start()
    client = AddonClient(tmp_path / "s", "credential")
    await client.start()

    async def ask(body: bytes) -> Any:
        nonlocal said
        said = body
        return await client.op("poll", PollArgs())

    yield ask
    await client.stop()
    await runner.cleanup()


LONG = b"9" * 4000


@pytest.mark.parametrize(
    "poison",
    [
        b'{"chat": "%s", "sender": {"id": "2"}, "id": "3"}' % LONG,
        b'{"chat": "1", "sender": {"id": "%s"}, "id": "3"}' % LONG,
        b'{"chat": "1", "sender": {"id": "2"}, "id": "%s"}' % LONG,
        b'{"chat": "1", "sender": {"id": "2"}, "delivery_id": "%s"}' % LONG,
        b'{"chat": "1", "sender": {"id": "2"}, "id": "3", "thread": "%s"}' % LONG,
        b'{"chat": "1", "sender": {"id": "2"}, "id": "3", "text": "secret \xff\xfe"}',
        b'{"chat": 1, "sender": {"id": "2"}}',
        b'{"text": "secret"}',
        b'"secret"',
        b"null",
    ],
)
async def test_a_message_that_cannot_be_used_is_skipped_and_the_poll_goes_on(
    answer: Any, poison: bytes
) -> None:
    with structlog.testing.capture_logs() as logs:
        result = await answer(
            b'{"offset": "9", "skipped": 1, "messages": [%s, %s, %s]}' % (GOOD, poison, GOOD)
        )
    assert (result.offset, result.skipped) == ("9", 2)
    assert result.messages == [Inbound(chat="1", sender=Person("2"), id="3", text="good")] * 2
    assert [log["event"] for log in logs] == ["inbound_skipped"]
    assert "secret" not in str(logs)
    assert LONG.decode() not in str(logs)


@pytest.mark.parametrize(
    "body", [b'{"offset": "%s"}' % LONG, b'{"messages": []}', b'{"offset": "1", "messages": 7}']
)
async def test_an_answer_that_says_not_where_to_go_on_is_a_bug(answer: Any, body: bytes) -> None:
    with pytest.raises(Bug):
        await answer(body)
