import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shared.sealing import KeyFile, KeyFileRefused, KeyRing


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    return KeyFile(tmp_path / "data" / "connectors.key")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_the_first_start_makes_the_file_for_its_owner_alone(file: KeyFile, umask: int) -> None:
    file.path.parent.mkdir()
    before = os.umask(umask)
    try:
        ring = file.load_or_create()
    finally:
        os.umask(before)
    assert mode(file.path) & 0o177 == 0
    assert file.load_or_create().to_text() == ring.to_text()
    assert [path.name for path in file.path.parent.iterdir()] == ["connectors.key"]


@pytest.mark.req("TOK-06")
def test_the_mode_is_0600(file: KeyFile) -> None:
    file.load_or_create()
    assert mode(file.path) == 0o600


@pytest.mark.req("TOK-08")
@pytest.mark.parametrize("open_to", [0o644, 0o640, 0o660, 0o604, 0o610, 0o601, 0o620, 0o602, 0o666, 0o777])
def test_a_file_open_to_anybody_else_is_refused_and_the_remedy_is_told(file: KeyFile, open_to: int) -> None:
    ring = file.load_or_create()
    file.path.chmod(open_to)
    with pytest.raises(KeyFileRefused) as refusal:
        file.load_or_create()
    assert f"mode {open_to:04o}" in str(refusal.value)
    assert f"chmod 600 {file.path}" in str(refusal.value)
    assert ring.to_text().split(":")[1].strip() not in str(refusal.value)
    file.path.chmod(0o600)
    assert file.load_or_create().to_text() == ring.to_text()


def test_a_symbolic_link_is_refused(file: KeyFile, tmp_path: Path) -> None:
    real = KeyFile(tmp_path / "real.key")
    real.load_or_create()
    file.path.parent.mkdir()
    file.path.symlink_to(real.path)
    with pytest.raises(KeyFileRefused, match="symbolic link"):
        file.load_or_create()


def test_a_link_to_nowhere_is_refused_and_not_followed(file: KeyFile, tmp_path: Path) -> None:
    file.path.parent.mkdir()
    file.path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(KeyFileRefused, match="symbolic link"):
        file.load_or_create()
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_what_is_no_file_is_refused(file: KeyFile, make: Callable[[Path, int], None]) -> None:
    file.path.parent.mkdir()
    make(file.path, 0o600)
    with pytest.raises(KeyFileRefused, match="not a regular file"):
        file.load_or_create()


@pytest.mark.parametrize("content", [b"", b"secret-stuff", b"\xff\xfe\xff", b"k1:secret\n" * 9000])
def test_a_file_that_cannot_be_understood_is_refused_and_kept(file: KeyFile, content: bytes) -> None:
    file.path.parent.mkdir()
    file.path.write_bytes(content)
    file.path.chmod(0o600)
    with pytest.raises(KeyFileRefused, match="cannot be understood") as refusal:
        file.load_or_create()
    assert "secret" not in str(refusal.value)
    assert file.path.read_bytes() == content


def test_processes_that_start_at_once_share_one_key(file: KeyFile) -> None:
    with ThreadPoolExecutor(16) as pool:
        rings = list(pool.map(lambda _: KeyFile(file.path).load_or_create().to_text(), range(64)))
    assert len(set(rings)) == 1


def test_rotation_puts_a_new_key_in_front_and_keeps_the_mode(file: KeyFile) -> None:
    before = file.load_or_create()
    sealed = before.seal("token", record="r")
    rotated = file.rotate()
    assert mode(file.path) == 0o600
    assert file.load().ids == rotated.ids == (rotated.active, before.active)
    assert file.load().open(sealed, record="r") == "token"


def test_the_first_line_is_the_active_key(file: KeyFile) -> None:
    file.path.parent.mkdir()
    file.path.write_text(KeyRing({"b": bytes(32), "a": bytes(32)}, "b").to_text())
    file.path.chmod(0o600)
    assert file.load().active == "b"
