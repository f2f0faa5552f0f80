"""The add-on that the documentation shows works as it stands there."""

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType

import pytest

from services.owner.gallery import read_package
from shared.sdk.errors import PlatformRefused
from shared.sdk.harness import AddonHarness

FOLDER = Path(__file__).parents[3] / "docs" / "examples" / "dice"


def dice() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dice_example", FOLDER / "dice.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def addon() -> AsyncIterator[AddonHarness]:
    async with AddonHarness(dice()) as started:
        yield started


async def test_dice_are_rolled(addon: AddonHarness) -> None:
    result = await addon.tool("dice_roll", arguments={"count": 3, "sides": 2})
    assert set(result.content.split(", ")) <= {"1", "2"}
    assert len(result.content.split(", ")) == 3


async def test_too_many_dice_are_refused_in_words(addon: AddonHarness) -> None:
    with pytest.raises(PlatformRefused, match="1 to 20"):
        await addon.tool("dice_roll", arguments={"count": 21})


def test_the_folder_is_a_package_that_an_owner_takes() -> None:
    package = read_package(FOLDER, str(FOLDER))
    assert package.manifest.id == "dice"
    assert package.digest.startswith("sha256:")
