"""What the rest of the owner needs to know of running add-ons; `supervisor` provides it."""

from dataclasses import dataclass, field
from typing import Protocol

from shared.sdk.client import AddonClient
from shared.sdk.manifest import Kind, Manifest


@dataclass(frozen=True, slots=True)
class Running:
    """One add-on process that answers."""

    id: str
    manifest: Manifest
    client: AddonClient
    credential: str = field(default="", repr=False)

    def kind(self, kind: str) -> Kind | None:
        connector = self.manifest.capabilities.connector
        return next((k for k in connector.kinds if k.id == kind), None) if connector else None


class Addons(Protocol):
    """The running add-ons."""

    def running(self) -> list[Running]: ...

    def get(self, addon: str) -> Running:
        """The running add-on of this ID. Raises AddonNotRunning with what to do."""
        ...

    def serving(self, kind: str, addon: str) -> Running:
        """The add-on that serves a binding; without a stored name it is the add-on of the kind (BIND-07).

        Raises AddonNotRunning.
        """
        ...
