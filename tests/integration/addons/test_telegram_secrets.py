"""Case TG-19: the token in the address of every call reaches no log, error or answer."""

from typing import Any

import pytest

from shared.sdk.errors import Failure
from shared.sdk.harness import AddonProcess
from shared.sdk.ops import EditArgs, MeArgs, PollArgs, SendArgs, TypingArgs
from tests.support.simulation import Sim, running

TOKEN = "111111:TESTSECRET"
LEAK = f"http://api.test/bot{TOKEN}/getUpdates"


async def failed(addon: AddonProcess, op: str, args: Any, *, deadline: float = 10.0) -> str:
    """Everything that the host learns of a failed call."""
    with pytest.raises(Failure) as failure:
        await addon.op(op, args, credential=TOKEN, deadline=deadline)
    chain = f"{failure.value.__cause__} {failure.value.__context__}"
    return f"{failure.value!r} {failure.value.message} {failure.value.data()} {chain}"


async def broken(sim: Sim, addon: AddonProcess) -> list[str]:
    """Normal polls, then a 404, a timeout, a lost connection, a moved server, bodies that repeat the address."""
    texts: list[str] = []
    await sim.says("hi", token=TOKEN)
    texts.append(repr(await addon.op("poll", PollArgs(wait_seconds=0), credential=TOKEN)))
    texts.append(repr(await addon.op("me", MeArgs(), credential=TOKEN)))
    told = {"ok": False, "error_code": 400, "description": f"Bad Request: {LEAK} failed for {TOKEN}"}
    faults: list[tuple[str, dict[str, Any], str, Any]] = [
        ("getUpdates", {"status": 404}, "poll", PollArgs(wait_seconds=0)),
        ("getUpdates", {"hang": True}, "poll", PollArgs(wait_seconds=0)),
        ("sendMessage", {"drop": "after"}, "send", SendArgs("5001", "x")),
        ("sendMessage", {"status": 302, "headers": {"Location": LEAK}}, "send", SendArgs("5001", "x")),
        ("sendMessage", {"status": 400, "body": told}, "send", SendArgs("5001", "x")),
        ("editMessageText", {"status": 400, "body": told}, "edit", EditArgs("5001", "1", "x")),
        ("sendChatAction", {"status": 500, "body": f"<html>{LEAK}</html>"}, "typing", TypingArgs("5001")),
        ("getMe", {"status": 200, "body": {"ok": True, "result": {"id": LEAK}}}, "me", MeArgs()),
        (
            "getMe",
            {"status": 200, "body": f"{LEAK}", "headers": {"Content-Encoding": "gzip"}},
            "me",
            MeArgs(),
        ),
    ]
    for method, how, op, args in faults:
        await sim.post("telegram/faults", {"method": method} | how)
        texts.append(await failed(addon, op, args, deadline=0.5 if "hang" in how else 10.0))
    return texts


@pytest.mark.case("TG-19")
async def test_the_token_is_found_nowhere() -> None:
    async with running() as sim:
        addon = AddonProcess("services.addons.telegram", settings={"telegram_api": sim.url})
        async with addon:
            texts = await broken(sim, addon)
            files = [path.read_bytes() for path in addon.data.rglob("*") if path.is_file()]
        assert "addon_started" in addon.errors
        assert "development_address_in_use" in addon.errors
        assert "TESTSECRET" not in addon.errors
        assert not any("TESTSECRET" in text for text in texts)
        assert not any(b"TESTSECRET" in content for content in files)
