"""Installed add-ons, as rows: the journal that only the owner writes."""

from dataclasses import dataclass
from typing import Any

import msgspec

from shared.sdk.manifest import Manifest
from shared.store.database import Connection


@dataclass(frozen=True, slots=True)
class Installed:
    """`source` is `bundled` or the folder it came from; `digest` names the exact content."""

    id: str
    version: str
    digest: str
    source: str
    generation: int
    enabled: bool
    manifest: Manifest


async def installed(connection: Connection) -> list[Installed]:
    rows = await connection.fetch(f"SELECT {_COLUMNS} FROM addon_installs ORDER BY id")  # noqa: S608 - constants only
    return [_record(row) for row in rows]


async def enabled_manifests(connection: Connection) -> dict[str, Manifest]:
    """Manifests of the enabled add-ons, by ID."""
    return {addon.id: addon.manifest for addon in await installed(connection) if addon.enabled}


async def install(
    connection: Connection, *, manifest: Manifest, digest: str, source: str, actor: str
) -> Installed:
    """Write or replace an installation; the generation grows with every change of its content."""
    row = await connection.fetchrow(
        _INSTALL, manifest.id, manifest.version, digest, source, msgspec.to_builtins(manifest), actor
    )
    return _record(row)


async def set_enabled(connection: Connection, addon_id: str, enabled: bool) -> Installed | None:
    row = await connection.fetchrow(
        f"UPDATE addon_installs SET enabled = $2 WHERE id = $1 RETURNING {_COLUMNS}",  # noqa: S608 - constants only
        addon_id,
        enabled,
    )
    return _record(row) if row else None


async def remove(connection: Connection, addon_id: str) -> bool:
    return await connection.execute("DELETE FROM addon_installs WHERE id = $1", addon_id) == "DELETE 1"


def _record(row: Any) -> Installed:
    values = dict(row)
    values["manifest"] = msgspec.convert(values["manifest"], Manifest)
    return Installed(**values)


_COLUMNS = "id, version, digest, source, generation, enabled, manifest"

_INSTALL = f"""
INSERT INTO addon_installs AS a (id, version, digest, source, manifest, installed_by) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (id) DO UPDATE SET version = $2, digest = $3, source = $4, manifest = $5, installed_by = $6,
  installed_at = now(), enabled = true,
  generation = CASE WHEN a.digest = $3 THEN a.generation ELSE a.generation + 1 END
RETURNING {_COLUMNS}
"""  # noqa: S608 - constants only
