"""Packages of add-ons: the bundled set and local folders, identified by digest. Nothing is ever downloaded.

A package is a folder with a manifest.json; its digest is over the names and bytes of its files. The bundled ones
are modules of this distribution; one from a local folder is copied into the root before it can run.
"""

import hashlib
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from shared.domain.errors import PlatformRefused, TooLarge
from shared.sdk.manifest import Manifest, ManifestRefused, parse_manifest

BUNDLED = "bundled"
#: largest package, in bytes and files
PACKAGE_BYTES, PACKAGE_FILES = 64 * 1024 * 1024, 2000
#: only shown to operators who ask for it: it is there for tests
HIDDEN = frozenset({"probe"})


def bundled_addons() -> Path:
    """The folder of the bundled set; the owner starts these modules and never imports them."""
    found = find_spec("services.addons")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0])


@dataclass(frozen=True, slots=True)
class Package:
    """A folder that holds an add-on."""

    manifest: Manifest
    digest: str
    source: str
    folder: Path


class Gallery:
    """What can be installed. `shows_hidden` adds the add-ons that are there for tests."""

    def __init__(self, bundled: Path, *, shows_hidden: bool = False) -> None:
        self._bundled = bundled
        self._hidden = frozenset() if shows_hidden else HIDDEN

    def packages(self) -> list[Package]:
        """The bundled set."""
        folders = sorted(path.parent for path in self._bundled.glob("*/manifest.json"))
        return [read_package(folder, BUNDLED) for folder in folders if folder.name not in self._hidden]

    def find(self, source: str, addon: str, digest: str) -> Package:
        """The package that a person chose, if it still is what they saw. Raises PlatformRefused with the reason."""
        if source == BUNDLED:
            found = next((p for p in self.packages() if p.manifest.id == addon), None)
            if found is None:
                raise PlatformRefused(f"there is no bundled add-on {addon[:64]!r}", reason="gone")
        else:
            found = _read_local(source)
            if found.manifest.id != addon:
                raise PlatformRefused(
                    f"the folder holds the add-on {found.manifest.id!r}, not {addon[:64]!r}"
                )
        if found.digest != digest:
            raise PlatformRefused(
                "the add-on is not the one you looked at: its digest is different now. Read the gallery again"
            )
        return found


def _read_local(source: str) -> Package:
    folder = Path(source)
    if not folder.is_absolute() or not (folder / "manifest.json").is_file():
        raise PlatformRefused(
            "the folder must be an absolute path on the owner's machine that holds a manifest.json"
        )
    try:
        return read_package(folder, source)
    except ManifestRefused as refused:
        raise PlatformRefused(str(refused)) from None
    except OSError as problem:
        raise PlatformRefused(f"the folder cannot be read: {problem.strerror}") from None


def read_package(folder: Path, source: str) -> Package:
    """Read and digest a package. Raises ManifestRefused, OSError, TooLarge."""
    return Package(parse_manifest((folder / "manifest.json").read_bytes()), digest_of(folder), source, folder)


def digest_of(folder: Path) -> str:
    """SHA-256 over the names and bytes of the files; links are refused, caches of the interpreter left out."""
    total = hashlib.sha256()
    size = 0
    files = sorted(p for p in folder.rglob("*") if "__pycache__" not in p.parts and not p.is_dir())
    if len(files) > PACKAGE_FILES:
        raise TooLarge(f"the add-on has more than {PACKAGE_FILES} files")
    for path in files:
        if path.is_symlink():
            raise PlatformRefused(f"the add-on holds a link ({path.name}), which is not allowed")
        size += path.stat().st_size
        if size > PACKAGE_BYTES:
            raise TooLarge(f"the add-on has more than {PACKAGE_BYTES} bytes")
        total.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        total.update(path.read_bytes())
    return f"sha256:{total.hexdigest()}"


def copy_package(package: Package, packages: Path) -> Path:
    """Put a local package into the root, under its digest; what is there already is the same."""
    home = home_of(packages, package.manifest.id, package.digest)
    if not home.exists():
        part = home.with_name(home.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(package.folder, part, ignore=shutil.ignore_patterns("__pycache__"))
        if digest_of(part) != package.digest:
            shutil.rmtree(part)
            raise PlatformRefused("the add-on changed while it was copied: read the gallery again")
        part.rename(home)
    return home


def home_of(packages: Path, addon: str, digest: str) -> Path:
    """Where an installed local package lives."""
    return packages / f"{addon}-{digest.removeprefix('sha256:')[:24]}"
