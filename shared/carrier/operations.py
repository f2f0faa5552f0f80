"""Every operation between frontends and the owner, declared once for both ends.

`authority` is what the owner checks again before it acts: `user` and `admin` look the acting user up, `term` holds
the leader's term against the newest announced one, `turn` holds (turn, epoch) against the stored turn.
No request carries a clear token: the owner opens the sealed one (CLU-30).
"""

from typing import Any

import msgspec

from shared.carrier.operation import Operation
from shared.sdk.manifest import Kind, Tool
from shared.sdk.ops import Me, PollResult, ToolResult


class Nothing(msgspec.Struct):
    """A request or a reply without content."""


# -- Leadership and polling -----------------------------------------------------------------------------


class Announce(msgspec.Struct):
    """A new leader of a shard; from its answer on, older terms are refused and their polls cancelled."""

    shard: int


#: seconds of a poll's deadline that are kept for the way back: the add-on ends the poll so much earlier
POLL_REPLY_SECONDS = 2.0


class Poll(msgspec.Struct):
    """Read what is new on a binding from `position`, waiting up to `wait_seconds`. `revision` is the binding's.

    The call's deadline says when a poll that does not come back is ended.
    """

    shard: int
    binding_id: str
    revision: int
    position: str
    wait_seconds: float


# -- Connectors -----------------------------------------------------------------------------------------


class Verify(msgspec.Struct):
    """Whose bot a new token is, before anything is saved. `sealed` is bound to the binding's future record."""

    binding_id: str
    kind: str
    addon: str
    sealed: str
    options: dict[str, str] = {}
    take_over_webhook: bool = False


class Test(msgspec.Struct):
    """Whose bot the stored token of a binding is."""

    binding_id: str


class Typing(msgspec.Struct):
    binding_id: str
    chat: str
    thread: str = ""


class Preview(msgspec.Struct):
    """Show `text` in the working message of the calling turn, if the budget of the binding allows it now."""

    binding_id: str
    text: str


class Shown(msgspec.Struct):
    """Whether the preview went out; `wait_seconds` is when another one may be tried."""

    shown: bool
    wait_seconds: float = 0.0


# -- Add-ons --------------------------------------------------------------------------------------------


class RunningAddon(msgspec.Struct):
    """An add-on that runs now, with what its manifest offers."""

    id: str
    version: str
    title: str
    kinds: tuple[Kind, ...] = ()
    tools: tuple[Tool, ...] = ()


class Running(msgspec.Struct):
    addons: list[RunningAddon]


class Listed(msgspec.Struct, omit_defaults=True):
    """One add-on of the gallery. `state`: available, running, stopped, starting, failed; `reason` says why."""

    id: str
    version: str
    title: str
    description: str
    digest: str
    source: str
    state: str
    reason: str = ""
    kinds: list[str] = []
    tools: list[str] = []
    installed_version: str = ""
    generation: int = 0


class Gallery(msgspec.Struct):
    addons: list[Listed]


class Install(msgspec.Struct):
    """Install from the bundled set (`source` = bundled) or a local folder (`source` = its path), by digest."""

    source: str
    id: str
    digest: str


class AddonId(msgspec.Struct):
    id: str


class ToolRequest(msgspec.Struct):
    addon: str
    tool: str
    arguments: dict[str, Any]
    binding_id: str = ""


class OwnerStatus(msgspec.Struct):
    """`state`: ready, starting or fenced. `terms` are the announced leaders by shard."""

    state: str
    term: int
    pid: int
    version: str
    addons: list[Listed]
    terms: dict[int, int]


ANNOUNCE = Operation("leader.announce", 1, Announce, Nothing, deadline=5.0, idempotent=True, authority="term")
POLL = Operation("connector.poll", 1, Poll, PollResult, deadline=60.0, idempotent=True, authority="term")
VERIFY = Operation("connector.verify", 1, Verify, Me, deadline=20.0, idempotent=True, authority="user")
TEST = Operation("connector.test", 1, Test, Me, deadline=20.0, idempotent=True, authority="user")
TYPING = Operation("connector.typing", 1, Typing, Nothing, deadline=5.0, idempotent=True)
PREVIEW = Operation("connector.preview", 1, Preview, Shown, deadline=15.0, idempotent=True)
RUNNING = Operation("addons.running", 1, Nothing, Running, deadline=5.0, idempotent=True)
GALLERY = Operation("addons.gallery", 1, Nothing, Gallery, deadline=10.0, idempotent=True)
INSTALL = Operation("addons.install", 1, Install, Listed, deadline=60.0, write=True, authority="admin")
ENABLE = Operation("addons.enable", 1, AddonId, Listed, deadline=30.0, write=True, authority="admin")
DISABLE = Operation("addons.disable", 1, AddonId, Listed, deadline=30.0, write=True, authority="admin")
REMOVE = Operation("addons.remove", 1, AddonId, Nothing, deadline=30.0, write=True, authority="admin")
TOOL_READ = Operation("tool.read", 1, ToolRequest, ToolResult, deadline=120.0, idempotent=True)
# A write repeated under its operation ID attaches to the first; so a lost reply may be asked for again.
TOOL_WRITE = Operation("tool.write", 1, ToolRequest, ToolResult, deadline=120.0, write=True, idempotent=True)
STATUS = Operation("owner.status", 1, Nothing, OwnerStatus, deadline=5.0, idempotent=True)
