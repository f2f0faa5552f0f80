"""What the owner runs right now, and what that means for a binding."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from services.frontend.api.errors import ApiError
from shared.carrier import Carrier
from shared.carrier import operations as ops
from shared.carrier.operations import RunningAddon
from shared.domain.errors import Failure, OwnerFenced, OwnerUnreachable, OwnerUnready
from shared.sdk.manifest import Kind
from shared.store import Database, addons
from shared.store.bindings import BindingRow

#: the owner itself is away: nothing was asked and nothing is stored (CLU-25)
OWNER_AWAY = (OwnerUnreachable, OwnerUnready, OwnerFenced)
#: seconds that lists may go on showing what ran; an act always asks anew
FRESH_SECONDS = 1.0
WHAT_TO_LOOK_AT = (
    "The add-ons cannot be asked now. Check that the connector add-on runs on the owner, "
    "and that this frontend reaches the owner over the configured private carrier."
)


@dataclass(frozen=True, slots=True)
class Found:
    """A kind and the running add-on that serves it."""

    addon: str
    kind: Kind


class RunningAddons:
    """Asks the owner; `recent` remembers its answer for a moment, also that it was away."""

    def __init__(self, carrier: Carrier, clock: Callable[[], float] = time.monotonic) -> None:
        self._carrier = carrier
        self._clock = clock
        self._asked_at = float("-inf")
        self._last: list[RunningAddon] | None = None

    async def now(self) -> list[RunningAddon]:
        """What runs. Raises ApiError 503 that says what to look at (CLU-21 to CLU-24)."""
        try:
            answer = await self._carrier.call(ops.RUNNING, ops.Nothing())
        except Failure as failure:
            self._note(None)
            raise ApiError(503, "owner_unavailable", WHAT_TO_LOOK_AT, code=failure.code) from failure
        self._note(answer.addons)
        return answer.addons

    async def recent(self) -> list[RunningAddon] | None:
        """What ran a moment ago; None when the owner is away."""
        if self._clock() - self._asked_at > FRESH_SECONDS:
            try:
                await self.now()
            except ApiError:
                return None
        return self._last

    def _note(self, running: list[RunningAddon] | None) -> None:
        self._last, self._asked_at = running, self._clock()


RUNNING = web.AppKey("RUNNING", RunningAddons)


def find_kind(running: list[RunningAddon], kind: str, addon: str = "") -> Found | None:
    """The running add-on that serves a kind: the one that the binding names, else any (BIND-07)."""
    for offered in running:
        if addon and offered.id != addon:
            continue
        for each in offered.kinds:
            if each.id == kind:
                return Found(offered.id, each)
    return None


class Activity:
    """Whether bindings work right now, and why not."""

    def __init__(self, running: list[RunningAddon] | None, titles: dict[str, tuple[str, bool]]) -> None:
        self._running = running
        self._titles = titles

    @classmethod
    async def read(cls, running: RunningAddons, database: Database) -> "Activity":
        installed = await addons.installed(database)
        titles = {a.id: (a.manifest.title or a.id, a.enabled) for a in installed}
        return cls(await running.recent(), titles)

    def reason(self, binding: BindingRow) -> str:
        """Why a binding is not active; empty when it is. What its owner has to mend comes first."""
        found = find_kind(self._running or [], binding.kind, binding.addon)
        off = not binding.enabled and not (found and found.kind.tool_only)
        if off and binding.off_reason:
            return binding.off_reason
        if not binding.has_token:
            return "no token saved"
        if not found:
            return self._missing(binding)
        return "it is switched off" if off else ""

    def kind(self, binding: BindingRow) -> Kind | None:
        """What its kind declares, while its add-on runs."""
        found = find_kind(self._running or [], binding.kind, binding.addon)
        return found.kind if found else None

    def _missing(self, binding: BindingRow) -> str:
        """What keeps its add-on from serving it (BIND-10, BIND-18)."""
        if self._running is None:
            return "the owner of the add-ons cannot be reached"
        addon = binding.addon or binding.kind
        if addon not in self._titles:
            return f"install the {addon.replace('_', ' ').replace('-', ' ').title()} add-on"
        title, enabled = self._titles[addon]
        return f"the {title} add-on is not running" if enabled else f"switch the {title} add-on on"
