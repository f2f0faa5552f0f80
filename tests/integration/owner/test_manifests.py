"""What every shipped add-on says of itself."""

import json
from pathlib import Path
from typing import Any

import pytest

import services.addons
from shared.sdk.manifest import ManifestRefused, parse_manifest

SHIPPED = sorted(Path(services.addons.__path__[0]).glob("*/manifest.json"))


def kinds_of(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    kinds: list[dict[str, Any]] = manifest["capabilities"].get("connector", {}).get("kinds", [])
    return kinds


@pytest.mark.req("CLU-01")
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.parent.name)
def test_each_kind_states_its_delivery_and_another_word_is_refused(path: Path) -> None:
    manifest = json.loads(path.read_bytes())
    assert all(kind["delivery"] in {"pull", "push"} for kind in kinds_of(manifest))
    parse_manifest(path.read_bytes())
    for kind in kinds_of(manifest):
        kind["delivery"] = "carrier pigeon"
        with pytest.raises(ManifestRefused):
            parse_manifest(json.dumps(manifest).encode())
        del kind["delivery"]
        with pytest.raises(ManifestRefused):
            parse_manifest(json.dumps(manifest).encode())


@pytest.mark.req("CLU-02")
def test_the_messengers_among_the_shipped_kinds_are_polled() -> None:
    delivery = {
        kind["id"]: kind["delivery"]
        for path in SHIPPED
        for kind in kinds_of(json.loads(path.read_bytes()))
        if kind["id"] in {"telegram", "slack", "discord"}
    }
    assert "telegram" in delivery
    assert set(delivery.values()) == {"pull"}
