"""The probe: what tests of the host may rely on."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from services.addons import probe
from services.addons.probe.control import (
    EffectsResult,
    FaultArgs,
    InjectArgs,
    Message,
    NoArgs,
    SentResult,
)
from shared.sdk.errors import (
    Bug,
    Denied,
    Failure,
    OutcomeUnknown,
    OwnerUnreachable,
    PlatformLimited,
    PlatformRefused,
)
from shared.sdk.harness import AddonHarness, AddonProcess
from shared.sdk.ops import DeleteArgs, Done, EditArgs, Inbound, Me, MeArgs, Person, PollArgs, SendArgs
from tests.support.raw import error_of

KEY = "acme:1"
HELLO = Inbound(chat="c", sender=Person("5001"), id="1", text="hello")


@pytest.fixture
async def addon(tmp_path: Path) -> AsyncIterator[AddonHarness]:
    async with AddonHarness(probe, data=tmp_path) as started:
        yield started


async def own(addon: Any, name: str, args: msgspec.Struct, result: type[msgspec.Struct] = Done) -> Any:
    return await addon.op(f"probe.{name}", args, result=result)


async def test_messages_are_polled_until_they_are_confirmed(addon: AddonHarness) -> None:
    for text in ("one", "two"):
        await own(addon, "inject", InjectArgs(msgspec.structs.replace(HELLO, text=text)))
    first = await addon.op("poll", PollArgs(wait_seconds=0), credential=KEY)
    assert [message.text for message in first.messages] == ["one", "two"]
    assert await addon.op("poll", PollArgs(wait_seconds=0), credential=KEY) == first
    after = await addon.op("poll", PollArgs(offset=first.offset, wait_seconds=0), credential=KEY)
    assert (after.messages, after.offset) == ([], first.offset)


async def test_a_poll_waits_for_a_message(addon: AddonHarness) -> None:
    waiting = asyncio.gather(addon.op("poll", PollArgs(wait_seconds=20), credential=KEY))
    await own(addon, "inject", InjectArgs(HELLO))
    [result] = await waiting
    assert result.messages == [HELLO]


async def test_what_was_sent_is_listed_as_people_see_it(addon: AddonHarness) -> None:
    sent = await addon.op("send", SendArgs("c", "hi", operation="op"), credential=KEY)
    await addon.op("edit", EditArgs("c", sent.id, "there"), credential=KEY)
    await addon.op("delete", DeleteArgs("c", sent.id), credential=KEY)
    with pytest.raises(PlatformRefused, match="no such message"):
        await addon.op("edit", EditArgs("c", sent.id, "again"), credential=KEY)
    seen = await own(addon, "sent", NoArgs(), SentResult)
    assert seen.messages == [
        Message(id=sent.id, chat="c", text="there", operation="op", edits=1, deleted=True)
    ]


async def test_a_token_names_its_account(addon: AddonHarness) -> None:
    assert await addon.op("me", MeArgs(), credential=KEY) == Me("acme", "Probe acme", "acme")
    with pytest.raises(PlatformRefused) as refused:
        await addon.op("me", MeArgs(), credential="nonsense")
    assert refused.value.reason == "credentials"


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (FaultArgs("me", code="denied"), Denied),
        (FaultArgs("me", code="platform_limited", data={"seconds": 3}), PlatformLimited),
        (FaultArgs("me", code="platform_refused", data={"reason": "gone"}), PlatformRefused),
        (FaultArgs("me", action="raise"), Bug),
    ],
)
async def test_a_fault_happens_as_often_as_asked(
    addon: AddonHarness, fault: FaultArgs, expected: type[Failure]
) -> None:
    await own(addon, "fault", fault)
    with pytest.raises(expected):
        await addon.op("me", MeArgs(), credential=KEY)
    await addon.op("me", MeArgs(), credential=KEY)


async def test_a_fault_after_the_effect_leaves_the_effect(addon: AddonHarness) -> None:
    await own(addon, "fault", FaultArgs("send", action="hang", moment="after"))
    error = await error_of(addon, "op/send", SendArgs("c", "hi"), credential=KEY, deadline=0.1)
    assert error["code"] == "outcome_unknown"
    assert len((await own(addon, "sent", NoArgs(), SentResult)).messages) == 1


async def test_the_read_tool_returns_its_arguments(addon: AddonHarness) -> None:
    assert (await addon.tool("probe_read", arguments={"a": 1})).content == '{"a":1}'


async def settled(addon: AddonHarness | AddonProcess, operation: str) -> Any:
    return msgspec.json.decode((await addon.tool("probe_write", "settle", operation=operation)).content)


async def test_every_apply_of_a_write_is_counted(addon: AddonHarness) -> None:
    await addon.tool("probe_write", "preview", {"value": "x"})
    assert (await settled(addon, "op"))["state"] == "unheard"
    for _ in range(2):
        await addon.tool("probe_write", "apply", {"value": "x"}, operation="op")
    assert await settled(addon, "op") == {"operation": "op", "state": "applied", "effects": 2}
    with pytest.raises(PlatformRefused):
        await addon.tool("probe_write", "apply", {"value": "x"})


@pytest.mark.parametrize(
    ("moment", "state", "effects"), [("before", "not_applied", {}), ("after", "applied", {"op": 1})]
)
async def test_a_restarted_probe_tells_what_became_of_a_write(
    tmp_path: Path, moment: Any, state: str, effects: dict[str, int]
) -> None:
    async with AddonProcess("services.addons.probe", data=tmp_path) as first:
        await own(first, "fault", FaultArgs("probe_write", action="kill", moment=moment))
        with pytest.raises(OutcomeUnknown):
            await first.tool("probe_write", "apply", {"value": "x"}, operation="op")
    async with AddonHarness(probe, data=tmp_path) as second:
        assert (await settled(second, "op"))["state"] == state
        assert (await own(second, "effects", NoArgs(), EffectsResult)).effects == effects


async def test_a_pushed_message_is_handed_to_the_host_with_the_actor_of_the_call(tmp_path: Path) -> None:
    received: list[tuple[str, Any]] = []

    async def inbound(request: web.Request) -> web.Response:
        received.append((request.headers["Authorization"], await request.json()))
        if len(received) > 1:
            return web.json_response({"error": {"code": "denied", "message": "not you"}}, status=403)
        return web.json_response({"result": {}})

    application = web.Application()
    application.router.add_post("/v1/host/connector.inbound", inbound)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.UnixSite(runner, str(tmp_path / "host")).start()
    async with AddonHarness(probe, data=tmp_path, host_socket=tmp_path / "host") as addon:
        push = InjectArgs(HELLO, push=True)
        await addon.client.op("probe.inject", push, actor="who", binding="b7", result=Done)
        with pytest.raises(Denied, match="not you"):
            await addon.client.op("probe.inject", push, binding="b7", result=Done)
        await runner.cleanup()
        with pytest.raises(OwnerUnreachable):
            await addon.client.op("probe.inject", push, binding="b7", result=Done)
        expected = {"binding": "b7", "message": msgspec.to_builtins(HELLO)}
        assert received == [("Bearer who", expected), (f"Bearer {addon.credential}", expected)]
