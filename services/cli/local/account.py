"""The user that Postgres runs as under root, and how files get within the reach of that user."""

import contextlib
import os
import pwd
import secrets
import shutil
from pathlib import Path

from services.cli.local.engine import EngineFailed

CACHE = Path("/var/cache/trunkline")
STATE = Path("/var/lib/trunkline")


def unprivileged() -> pwd.struct_passwd | None:
    """The user for an engine that refuses to run as root; None for the one that runs us. Raises EngineFailed."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise EngineFailed("Postgres cannot run as root and there is no user `postgres` or `nobody`")


def reachable_programs(folder: Path, trees: tuple[Path, ...], account: pwd.struct_passwd | None) -> Path:
    """The folder of the programs, copied to a cache with their `trees` when the user cannot get at them."""
    if account is None or reaches(folder, account):
        return folder
    stamp = int((folder / "postgres").stat().st_mtime)
    home = CACHE / f"{folder.parent.name}-{stamp}"
    copied = home / "package" / folder.parent.name / folder.name
    if not copied.exists():
        part = home.with_name(f"{home.name}.{secrets.token_hex(4)}")
        part.mkdir(parents=True, mode=0o755)
        try:
            for tree in trees:
                # The programs find their libraries by the way from one folder to the other.
                beside = tree.name.endswith(".libs")
                shutil.copytree(
                    tree, part / tree.name if beside else part / "package" / tree.name, symlinks=True
                )
            _open_to_all(part)
            with contextlib.suppress(OSError):  # another start was faster
                part.rename(home)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return copied


def reachable_folder(asked: Path, account: pwd.struct_passwd | None) -> Path:
    """The folder, owned by the user; elsewhere, behind a link, when the user cannot get at it."""
    folder = asked.resolve() if asked.is_symlink() else asked.absolute()
    if account is None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder
    if not asked.is_symlink():
        asked.parent.mkdir(parents=True, exist_ok=True)
        if not reaches(asked.parent, account):
            folder = STATE / f"postgres-{secrets.token_hex(6)}"
            asked.symlink_to(folder)
    folder.mkdir(parents=True, exist_ok=True)
    os.chown(folder, account.pw_uid, account.pw_gid)
    folder.chmod(0o700)
    return folder


def reaches(folder: Path, account: pwd.struct_passwd) -> bool:
    """Whether the folder and every one above it lets the user through."""
    resolved = folder.resolve()
    for step in [resolved, *resolved.parents]:
        facts = step.stat()
        if facts.st_uid == account.pw_uid:
            bits = facts.st_mode >> 6
        elif facts.st_gid == account.pw_gid:
            bits = facts.st_mode >> 3
        else:
            bits = facts.st_mode
        if not bits & 1:
            return False
    return True


def _open_to_all(tree: Path) -> None:
    for path in [tree, *tree.rglob("*")]:
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o055 if path.is_dir() or mode & 0o100 else mode | 0o044)
