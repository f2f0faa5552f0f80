"""The folder of the add-ons, when it cannot be used."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.owner.root import Root, RootUnusable


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A file system that is full to the last byte."""
    folder = tmp_path / "full"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        if os.environ.get("CI"):
            pytest.fail("this user may not mount a file system")
        pytest.skip("this user may not mount a file system")
    try:
        (folder / "data").mkdir()
        (folder / "packages").mkdir()
        (folder / "filler").write_bytes(bytes(48 * 1024))
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


async def test_a_full_folder_is_refused_with_what_to_do_and_left_as_it_was(full: Path) -> None:
    before = names(full)
    with pytest.raises(RootUnusable, match=r"no space left .* free some"):
        await Root(full).start()
    assert names(full) == before


async def test_without_a_folder_nothing_starts() -> None:
    with pytest.raises(RootUnusable, match="TRUNKLINE_OWNER_ROOT"):
        await Root(Path()).start()


async def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("not a folder", "utf-8")
    with pytest.raises(RootUnusable, match=str(tmp_path / "root")):
        await Root(tmp_path / "root").start()


async def test_the_sockets_that_a_killed_owner_left_are_removed_at_the_next_start(tmp_path: Path) -> None:
    killed = Root(tmp_path)
    await killed.start()
    (killed.sockets / "host.sock").touch()
    left = killed.sockets
    for file in killed._files:
        os.close(file)

    following = Root(tmp_path)
    await following.start()
    assert not left.exists()
    own = following.sockets
    assert own.is_dir()
    await following.stop()
    assert not own.exists()
    assert "sockets" not in names(tmp_path)


async def test_a_link_to_a_strangers_folder_costs_it_nothing(tmp_path: Path) -> None:
    (tmp_path / "stranger").mkdir()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "sockets").symlink_to(tmp_path / "stranger")
    root = Root(tmp_path / "root")
    await root.start()
    assert (tmp_path / "stranger").is_dir()
    await root.stop()
