"""Opens sealed tokens, on the owner only.

An opened token is kept as long as the binding's revision is the one it was read at: every change of a binding
raises it, and every caller names the revision that it knows.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from shared.domain.errors import PlatformRefused
from shared.sealing import KeyRing, SealBroken, Secret
from shared.store import Database
from shared.store import bindings as store

#: bindings whose opened token is kept in memory
KEPT = 4096


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the platform of a binding."""

    binding_id: str
    kind: str
    addon: str
    revision: int
    token: Secret = field(repr=False)
    options: dict[str, str] = field(default_factory=dict)


class Credentials:
    """Tokens by binding."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ring: KeyRing | None = None
        self._kept: OrderedDict[str, Access] = OrderedDict()

    def unlock(self, ring: KeyRing) -> None:
        """Use this ring from now on."""
        self._ring = ring

    async def of(self, binding_id: str, revision: int = 0) -> Access:
        """The access of a binding that is at least at `revision`; 0 reads it anew.

        Raises PlatformRefused (reason `credentials`, or `gone`) when there is no binding or no usable token.
        """
        kept = self._kept.get(binding_id)
        if kept is not None and revision and kept.revision >= revision:
            self._kept.move_to_end(binding_id)
            return kept
        row = await store.access(self._database, binding_id)
        if row is None:
            raise PlatformRefused("this connection does not exist any more", reason="gone")
        access = Access(
            binding_id,
            row.kind,
            row.addon,
            row.revision,
            self.open(binding_id, row.sealed),
            dict(row.options),
        )
        self._kept[binding_id] = access
        self._kept.move_to_end(binding_id)
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return access

    def open(self, binding_id: str, sealed: str) -> Secret:
        """The token inside a sealed value that is tied to this binding (TOK-01, TOK-02)."""
        if not sealed:
            raise PlatformRefused("this connection has no token: save one", reason="credentials")
        assert self._ring is not None, "nothing is opened before the start"
        try:
            return Secret(self._ring.open(sealed, record=store.token_record(binding_id)))
        except SealBroken as broken:
            raise PlatformRefused(
                "the stored token of this connection cannot be opened: save the token again",
                reason="credentials",
            ) from broken

    def forget(self, binding_id: str) -> None:
        self._kept.pop(binding_id, None)
