"""The platforms that running add-ons connect."""

import msgspec

from services.frontend.api.call import Call
from services.frontend.api.routes import Route
from services.frontend.api.running import RUNNING
from shared.sdk.manifest import Kind


class OptionView(msgspec.Struct):
    """A setting of the add-on's own; the first value is the default."""

    id: str
    title: str
    values: list[str]


class KindView(msgspec.Struct, omit_defaults=True):
    """`setup` says what a person needs first, `sender_hint` what a person is called on an allowlist."""

    id: str
    title: str
    addon: str
    delivery: str
    description: str = ""
    setup: str = ""
    sender_hint: str = ""
    page: str = ""
    tool_only: bool = False
    options: list[OptionView] = []
    roles: list[str] = []
    permissions: list[str] = []

    @classmethod
    def of(cls, addon: str, kind: Kind) -> "KindView":
        return cls(
            kind.id,
            kind.title,
            addon,
            kind.delivery,
            kind.description,
            kind.setup,
            kind.sender_hint,
            kind.page,
            kind.tool_only,
            [OptionView(option.id, option.title, list(option.values)) for option in kind.options],
            list(kind.roles),
            list(kind.permissions),
        )


class Kinds(msgspec.Struct):
    """An empty list is a healthy owner without connectors; an owner that is away is an error (CLU-20)."""

    kinds: list[KindView]
    capabilities: list[str]


async def listed(call: Call) -> Kinds:
    running = await call.request.app[RUNNING].now()
    return Kinds([KindView.of(addon.id, kind) for addon in running for kind in addon.kinds], [])


ROUTES = [
    Route(
        "GET",
        "/api/chats/connectors/kinds",
        listed,
        "The platforms that running add-ons connect",
        "connectors",
    )
]
