"""The protocol between host and add-on, both real ends over a real socket."""

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from shared.lifecycle import Tasks
from shared.sdk.addon import Addon, OpCall, Secret, Surroundings, no_state
from shared.sdk.client import AddonClient
from shared.sdk.errors import (
    AddonNotRunning,
    Bug,
    Deadline,
    Denied,
    Failure,
    OutcomeUnknown,
    PlatformLimited,
    PlatformRefused,
    PlatformUnavailable,
    TooLarge,
)
from shared.sdk.harness import AddonHarness
from shared.sdk.ops import Done, Me, MeArgs, SendArgs, Sent, ToolCall, ToolResult, TypingArgs
from shared.sdk.wire import MAX_BODY_BYTES
from tests.support.raw import error_of

MANIFEST = b'{"id": "small"}'
SEND = SendArgs(chat="1", text="hi", operation="op-7")


def small(handler: Any, *, op: str = "me") -> Addon[None]:
    return Addon(manifest=MANIFEST, open=no_state, ops={op: handler}, tools={"tool": handler})


async def answers(call: OpCall[None], _: Any) -> Me:
    return Me(account_id=call.credential.reveal(), name=call.binding, handle=call.options.get("x", ""))


async def hangs(_: OpCall[None], __: Any) -> Me:
    await asyncio.Event().wait()
    raise AssertionError


def raising(problem: Exception) -> Any:
    async def handler(_: OpCall[None], __: Any) -> Me:
        raise problem

    return handler


async def test_a_call_carries_credential_binding_and_options_and_answers_typed() -> None:
    async with AddonHarness(small(answers)) as addon:
        me = await addon.op("me", MeArgs(), credential="k", binding="b", options={"x": "y"})
    assert me == Me(account_id="k", name="b", handle="y")


@pytest.mark.parametrize(
    "failure",
    [
        PlatformRefused("no", reason="migrated", detail={"migrated_to": "-100"}),
        PlatformLimited("wait", seconds=2.5),
        PlatformUnavailable("away"),
        Denied("not you"),
        OutcomeUnknown("perhaps", operation="op-7"),
        TooLarge("long"),
        Deadline("late"),
        Bug("broken"),
    ],
    ids=lambda failure: failure.code,
)
async def test_every_failure_arrives_as_it_was_raised(failure: Failure) -> None:
    async with AddonHarness(small(raising(failure))) as addon:
        with pytest.raises(type(failure)) as arrived:
            await addon.op("me", MeArgs())
    assert (arrived.value.message, arrived.value.data()) == (failure.message, failure.data())


async def test_an_unexpected_exception_is_a_bug_without_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    problem = RuntimeError("password is hunter2-hunter2 at /srv/inside")
    async with AddonHarness(small(raising(problem))) as addon:
        with pytest.raises(Bug) as arrived:
            await addon.op("me", MeArgs(), credential="hunter2-hunter2")
    assert arrived.value.message == "the add-on failed in me"
    written = "".join(capsys.readouterr())
    assert "RuntimeError" in written
    assert "hunter2" not in written


async def test_a_passed_deadline_cancels_the_call() -> None:
    ended = asyncio.Event()

    async def waits(_: OpCall[None], __: Any) -> Me:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    async with AddonHarness(small(waits)) as addon:
        assert (await error_of(addon, "op/me", MeArgs(), deadline=0.05))["code"] == "deadline"
    assert ended.is_set()


async def test_a_passed_deadline_of_a_write_leaves_its_outcome_unknown() -> None:
    async with AddonHarness(small(hangs, op="send")) as addon:
        unknown = await error_of(addon, "op/send", SEND, deadline=0.05)
        assert (unknown["code"], unknown["data"]) == ("outcome_unknown", {"operation": "op-7"})
        apply, settle = (ToolCall(phase, operation="op-8") for phase in ("apply", "settle"))
        unknown = await error_of(addon, "tool/tool", apply, deadline=0.05)
        assert (unknown["code"], unknown["data"]) == ("outcome_unknown", {"operation": "op-8"})
        assert (await error_of(addon, "tool/tool", settle, deadline=0.05))["code"] == "deadline"


async def test_a_timeout_of_the_add_ons_own_is_not_the_deadline() -> None:
    async with AddonHarness(small(raising(TimeoutError()))) as addon:
        with pytest.raises(Bug):
            await addon.op("me", MeArgs(), deadline=5)


async def test_a_caller_that_goes_away_cancels_its_call() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def waits(_: OpCall[None], __: Any) -> Me:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    tasks = Tasks("callers")
    async with AddonHarness(small(waits)) as addon:
        call = tasks.run("call", addon.op("me", MeArgs(), deadline=600.0))
        await begun.wait()
        call.cancel()
        await ended.wait()


async def test_calls_run_at_the_same_time() -> None:
    meeting = asyncio.Barrier(40)

    async def meets(_: OpCall[None], __: Any) -> Me:
        await meeting.wait()
        return Me()

    async with AddonHarness(small(meets)) as addon:
        await asyncio.wait_for(asyncio.gather(*[addon.op("me", MeArgs()) for _ in range(40)]), 10)


async def test_nobody_without_the_credential_of_this_start_is_answered() -> None:
    async with AddonHarness(small(answers)) as addon:
        stranger = AddonClient(addon.socket_path, "guess")
        await stranger.start()
        for call in (stranger.health(), stranger.manifest(), stranger.op("me", MeArgs())):
            with pytest.raises(AddonNotRunning, match="another start"):
                await call
        await stranger.stop()


async def test_only_accepted_calls_count_as_a_sign_of_the_host() -> None:
    async with AddonHarness(small(answers)) as addon:
        before = addon.server.last_call
        connector = aiohttp.UnixConnector(str(addon.socket_path))
        async with (
            aiohttp.ClientSession(connector=connector) as foreign,
            foreign.get("http://addon/health") as reply,
        ):
            assert reply.status == 401
        assert addon.server.last_call == before
        await addon.client.health()
        assert addon.server.last_call > before


async def test_an_add_on_tells_with_its_health_when_it_last_heard_its_links() -> None:
    addon = Addon(manifest=MANIFEST, open=no_state, heard=lambda _: {"bnd_1": 2.5})
    async with AddonHarness(addon) as linked, AddonHarness(small(answers)) as plain:
        assert (await linked.client.health()).heard == {"bnd_1": 2.5}
        assert (await plain.client.health()).heard == {}


async def test_the_socket_is_for_the_owners_user_only() -> None:
    async with AddonHarness(small(answers)) as addon:
        assert addon.socket_path.stat().st_mode & 0o777 == 0o600


async def test_the_manifest_is_served_as_it_is() -> None:
    async with AddonHarness(small(answers)) as addon:
        assert await addon.client.manifest() == MANIFEST


async def test_what_an_add_on_does_not_have_is_a_bug_of_the_caller() -> None:
    async with AddonHarness(small(answers)) as addon:
        with pytest.raises(Bug, match="does not have"):
            await addon.op("typing", TypingArgs(chat="1"))


async def test_arguments_that_do_not_fit_name_the_field() -> None:
    async with AddonHarness(small(answers, op="send")) as addon:
        with pytest.raises(Bug, match="chat"):
            await addon.op("send", MeArgs())


async def test_a_large_call_arrives() -> None:
    async with AddonHarness(small(answers, op="send")) as addon:
        await addon.op("send", SendArgs(chat="1", text="x" * (MAX_BODY_BYTES // 2)), result=Me)


async def test_a_call_that_is_too_large_is_refused_by_both_ends() -> None:
    async with AddonHarness(small(answers, op="send")) as addon:
        with pytest.raises(TooLarge):
            await addon.op("send", SendArgs(chat="1", text="x" * MAX_BODY_BYTES))
        connector = aiohttp.UnixConnector(str(addon.socket_path))
        headers = {"Authorization": f"Bearer {addon.credential}"}
        body = io.BytesIO(b"x" * (MAX_BODY_BYTES + 1))
        async with (
            aiohttp.ClientSession(connector=connector, headers=headers) as session,
            session.post("http://addon/v1/op/send", data=body) as reply,
        ):
            assert reply.status == 413
            assert (await reply.json())["error"]["code"] == "too_large"


async def test_a_result_of_the_wrong_type_is_a_bug() -> None:
    async def confused(_: OpCall[None], __: Any) -> Sent:
        return Sent("5")

    async with AddonHarness(small(confused)) as addon:
        with pytest.raises(Bug, match="does not fit"):
            await addon.client.tool("tool", ToolCall("read"))


async def test_a_tool_gets_its_phase_arguments_and_operation() -> None:
    async def tool(_: OpCall[None], call: ToolCall) -> ToolResult:
        return ToolResult(f"{call.phase} {call.arguments} {call.operation}")

    async with AddonHarness(small(tool)) as addon:
        result = await addon.tool("tool", "apply", {"a": 1}, operation="op-1")
    assert result.content == "apply {'a': 1} op-1"


async def test_an_add_on_that_never_ran_is_not_running() -> None:
    async with AddonHarness(small(answers, op="send")) as addon:
        await addon.server.stop()
        with pytest.raises(AddonNotRunning):
            await addon.op("send", SEND)
        with pytest.raises(AddonNotRunning):
            await addon.client.health()


async def test_the_state_lives_from_start_to_stop() -> None:
    story: list[str] = []

    @asynccontextmanager
    async def kept(surroundings: Surroundings) -> AsyncIterator[str]:
        story.append(surroundings.settings["greeting"])
        yield "state"
        story.append("closed")

    async def remembers(call: OpCall[str], _: Any) -> Done:
        story.append(call.state)
        return Done()

    addon = Addon(manifest=MANIFEST, open=kept, ops={"typing": remembers})
    async with AddonHarness(addon, settings={"greeting": "hello"}) as running:
        await running.op("typing", TypingArgs(chat="1"))
    assert story == ["hello", "state", "closed"]


async def test_a_server_stops_twice_and_without_a_start() -> None:
    async with AddonHarness(small(answers)) as addon:
        await addon.server.stop()
        await addon.server.stop()
        await addon.client.stop()
        await addon.client.stop()


def test_a_secret_prints_nowhere() -> None:
    secret = Secret("hunter2")
    call = OpCall(secret, Secret("token"), "b", {}, None)
    assert "hunter2" not in f"{secret} {secret!r} {call}"
    assert secret.reveal() == "hunter2"
