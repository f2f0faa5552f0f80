"""What installed add-ons offer, as a turn needs it: from the database, so that an owner that is away changes nothing."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from shared.sdk.manifest import Kind, Manifest, TextDialect, Tool
from shared.store import Database, addons

#: seconds that a catalog is trusted
FRESH_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool and the add-on that runs it."""

    addon: str
    tool: Tool


class Catalog:
    """Kinds and tools of the add-ons that are installed and enabled."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._manifests: dict[str, Manifest] = {}
        self._read_at = float("-inf")

    async def manifests(self) -> dict[str, Manifest]:
        if self._clock() - self._read_at > FRESH_SECONDS:
            self._manifests = await addons.enabled_manifests(self._database)
            self._read_at = self._clock()
        return self._manifests

    async def kind(self, kind: str, addon: str = "") -> Kind | None:
        """A kind by its ID, of one add-on or of any."""
        for addon_id, manifest in (await self.manifests()).items():
            connector = manifest.capabilities.connector
            if connector is None or (addon and addon != addon_id):
                continue
            for offered in connector.kinds:
                if offered.id == kind:
                    return offered
        return None

    async def dialect(self, kind: str, addon: str) -> TextDialect:
        """How text goes out on a kind; plain text for one that is not installed any more."""
        offered = await self.kind(kind, addon)
        return offered.text if offered else TextDialect()

    async def tools(self, addon_ids: tuple[str, ...]) -> list[OfferedTool]:
        """The tools of these add-ons that a model may be offered."""
        manifests = await self.manifests()
        return [
            OfferedTool(addon_id, tool)
            for addon_id in addon_ids
            if addon_id in manifests
            for tool in manifests[addon_id].capabilities.tools
            if not tool.page_only
        ]
