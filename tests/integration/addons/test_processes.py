"""An add-on as a process: start, size, and every way it ends."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from services.addons import probe, telegram
from services.addons.probe.control import FaultArgs
from shared.sdk.errors import AddonNotRunning, OutcomeUnknown
from shared.sdk.harness import AddonProcess
from shared.sdk.manifest import parse_manifest
from shared.sdk.ops import Done, SendArgs
from shared.sdk.runtime import HOST_SILENCE_SECONDS
from tests.support.until import until

MEGABYTE = 1024 * 1024


def test_the_manifests_are_accepted() -> None:
    kind = parse_manifest(telegram.ADDON.manifest).capabilities.connector
    assert kind is not None
    [described] = kind.kinds
    assert (described.id, described.delivery, described.drafts) == ("telegram", "pull", True)
    assert (described.text.markup, described.text.limit, described.text.unit) == ("MarkdownV2", 4096, "utf16")
    pushed = parse_manifest(probe.ADDON.manifest).capabilities.connector
    assert pushed is not None
    assert [each.delivery for each in pushed.kinds] == ["pull", "push"]


async def test_an_idle_telegram_process_is_small() -> None:
    async with AddonProcess("services.addons.telegram") as addon:
        await addon.client.health()
        assert psutil.Process(addon.process.pid).memory_info().rss < 60 * MEGABYTE


async def test_a_stop_signal_ends_it_in_order() -> None:
    async with AddonProcess("services.addons.probe") as addon:
        addon.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(addon.process.wait(), 10) == 0
        with pytest.raises(AddonNotRunning):
            await addon.client.health()
    assert '"reason": "signal"' in addon.errors


async def test_it_ends_when_its_host_falls_silent() -> None:
    async with AddonProcess("services.addons.probe") as addon:
        began = asyncio.get_running_loop().time()
        await asyncio.wait_for(addon.process.wait(), HOST_SILENCE_SECONDS + 10)
        assert asyncio.get_running_loop().time() - began > HOST_SILENCE_SECONDS - 1
    assert '"reason": "host_silent"' in addon.errors


async def test_a_process_that_is_killed_in_a_send_leaves_the_outcome_unknown() -> None:
    async with AddonProcess("services.addons.probe") as addon:
        fault = FaultArgs(call="send", action="kill", moment="after")
        await addon.op("probe.fault", fault, result=Done)
        with pytest.raises(OutcomeUnknown) as unknown:
            await addon.op("send", SendArgs("1", "hi", operation="op-7"), credential="a:b")
        assert unknown.value.operation == "op-7"
        assert await addon.process.wait() == -signal.SIGKILL
        with pytest.raises(AddonNotRunning):
            await addon.op("send", SendArgs("1", "hi"), credential="a:b")


PARENT = """
import asyncio, sys
from shared.sdk.harness import AddonProcess

async def main():
    async with AddonProcess("services.addons.probe") as addon:
        print(addon.process.pid, flush=True)
        while True:
            await addon.client.health()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the silence of the host ends it")
async def test_it_ends_with_its_parent_also_after_a_kill(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    # TMPDIR: what a killed process leaves behind goes with the folder of this test.
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3]), "TMPDIR": str(tmp_path)}
    parent = await asyncio.create_subprocess_exec(
        sys.executable, str(script), stdout=asyncio.subprocess.PIPE, env=environment
    )
    assert parent.stdout is not None
    child = psutil.Process(int(await parent.stdout.readline()))
    parent.kill()
    await parent.wait()
    await until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, within=3)
