"""The add-on processes of a running owner: folders, sockets, credential, restart, end."""

import os
import signal
import stat
from pathlib import Path

import pytest

from services.owner.app import Owner
from services.owner.root import SecondOwner
from shared.carrier import operations as ops
from shared.domain.errors import AddonNotRunning
from shared.sdk.client import AddonClient
from tests.support.rig import Rig, rig
from tests.support.until import until, until_answer

pytestmark = pytest.mark.asyncio(loop_scope="module")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def environment(pid: int) -> dict[str, str]:
    raw = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(entry.split("=", 1) for entry in raw if "=" in entry)


def sockets_of(pid: int) -> list[Path]:
    """The sockets that a process was given: its own and the host's."""
    given = environment(pid)
    return [Path(given["TRUNKLINE_ADDON_SOCKET"]), Path(given["TRUNKLINE_HOST_SOCKET"])]


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_each_addon_has_a_folder_and_sockets_that_only_the_owner_may_use(path: Rig) -> None:
    for addon in ("telegram", "probe"):
        assert mode(path.folder / "addons" / "data" / addon) == 0o700
        (pid,) = path.addon_pids(addon)
        for each in sockets_of(pid):
            assert mode(each) == 0o600
            assert mode(each.parent) == 0o700


async def test_an_addon_answers_only_the_credential_of_its_start(path: Rig) -> None:
    (pid,) = path.addon_pids("probe")
    stranger = AddonClient(sockets_of(pid)[0], "guessed")
    await stranger.start()
    try:
        with pytest.raises(AddonNotRunning):
            await stranger.health()
    finally:
        await stranger.stop()
    await path.addon("probe").health()


async def test_an_addon_inherits_nothing_secret_in_its_environment(path: Rig) -> None:
    (pid,) = path.addon_pids("telegram")
    names = set(environment(pid)) - {"PATH", "LANG", "TRUNKLINE_HOST_SOCKET"}
    assert names
    assert all(name.startswith("TRUNKLINE_ADDON_") for name in names)


async def test_an_addon_that_ends_is_started_again_and_reports_not_running_meanwhile(path: Rig) -> None:
    (pid,) = path.addon_pids("probe")
    os.kill(pid, signal.SIGKILL)

    async def gone() -> bool:
        running = await path.carrier.call(ops.RUNNING, ops.Nothing())
        return "probe" not in [addon.id for addon in running.addons]

    async def back() -> bool:
        return not await gone()

    await until_answer(gone)
    await until_answer(back)
    assert path.addon_pids("probe") != [pid]


async def test_an_addon_that_stands_still_is_replaced(path: Rig) -> None:
    (pid,) = path.addon_pids("probe")
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: path.addon_pids("probe") not in ([pid], []), within=40)


async def test_a_second_owner_of_the_same_root_is_refused_in_words(path: Rig) -> None:
    second = Owner(path.settings)
    with pytest.raises(SecondOwner, match="stop it first"):
        await second.start()
    await path.carrier.call(ops.RUNNING, ops.Nothing())


async def test_the_addons_end_with_their_owner(database_url: str) -> None:
    async with rig(database_url, frontends=0) as path:
        pids = path.addon_pids("telegram") + path.addon_pids("probe")
        assert len(pids) == 2
        folder = sockets_of(pids[0])[0].parent
    assert not any(alive(pid) for pid in pids)
    assert not folder.exists()
