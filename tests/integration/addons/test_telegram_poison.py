"""Updates that no program could read are passed, and the good ones around them arrive."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from services.addons import telegram
from shared.sdk.harness import AddonHarness
from shared.sdk.ops import PollArgs, PollResult

TOKEN = "111:secret-of-the-first-bot"
GOOD = (
    b'{"update_id": %d, "message": {"message_id": 7, "chat": {"id": 5001, "type": "private"}, '
    b'"from": {"id": 5001}, "text": "good"}}'
)


@asynccontextmanager
async def platform(updates: list[bytes]) -> AsyncIterator[AddonHarness]:
    """The add-on on a platform that answers every poll with these very bytes."""

    async def answer(request: web.Request) -> web.Response:
        me = b'{"id": 111, "username": "bot"}'
        result = me if request.path.endswith("getMe") else b"[" + b",".join(updates) + b"]"
        return web.Response(body=b'{"ok": true, "result": ' + result + b"}")

    app = web.Application()
    app.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        async with AddonHarness(telegram, settings={"telegram_api": f"http://127.0.0.1:{port}"}) as addon:
            yield addon
    finally:
        await runner.cleanup()


async def poll(addon: AddonHarness, offset: str = "") -> PollResult:
    result = await addon.op("poll", PollArgs(offset, wait_seconds=0), credential=TOKEN)
    assert isinstance(result, PollResult)
    return result


@pytest.mark.parametrize(
    "poison",
    [
        b'{"update_id": 20, "message": {"text": "\xff\xfe"}}',
        b'{"message": {"text": "\xff"}, "update_id" : 20}',
        b'{"update_id": 20, "message": []}',
        b'{"update_id": 20, "message": {"message_id": 1, "chat": {"id": 1}, "date": 1' + b"0" * 400 + b"}}",
        b'{"update_id": "twenty", "message": null}',
        b"17",
        b"null",
    ],
)
async def test_an_update_that_cannot_be_read_is_counted_and_passed(poison: bytes) -> None:
    async with platform([GOOD % 19, poison]) as addon:
        result = await poll(addon, "19")
        assert (result.offset, result.skipped, [m.text for m in result.messages]) == ("21", 1, ["good"])
    async with platform([poison, GOOD % 21]) as addon:
        result = await poll(addon, "20")
        assert (result.offset, result.skipped, [m.text for m in result.messages]) == ("22", 1, ["good"])
    async with platform([poison]) as addon:
        assert (await poll(addon, "20")).offset == "21"


async def test_half_a_surrogate_pair_is_marked_and_hides_nothing() -> None:
    half = (GOOD % 20).replace(b"good", b"half \\ud83d")
    async with platform([half, GOOD % 21]) as addon:
        result = await poll(addon, "20")
    assert (result.offset, [m.text for m in result.messages]) == ("22", ["half ?", "good"])


async def test_an_id_of_kilobytes_is_passed_by_the_host() -> None:
    long = b'{"update_id": 20, "message": {"message_id": 7, "chat": {"id": 1%s}, "from": {"id": 1}, "text": "x"}}'
    async with platform([long % (b"0" * 3000), GOOD % 21]) as addon:
        result = await poll(addon, "20")
    assert (result.offset, result.skipped, [m.text for m in result.messages]) == ("22", 1, ["good"])
