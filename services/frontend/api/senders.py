"""The sender log of a binding: who tried, and letting them in."""

import msgspec

from services.frontend.api.binding_saves import changed
from services.frontend.api.binding_views import view
from services.frontend.api.call import PAGE, Call
from services.frontend.api.connector_types import MOST_ALLOWED, BindingView, checked_allow
from services.frontend.api.errors import conflict, not_found
from services.frontend.api.routes import Route
from shared.store import audit, bindings, senders
from shared.store.senders import SenderRow


class SenderView(msgspec.Struct, omit_defaults=True):
    """`reason` only for somebody whose last message was ignored: `not_listed`, `not_addressed`, ..."""

    id: str
    count: int
    first_at: str
    last_at: str
    name: str = ""
    handle: str = ""
    chat: str = ""
    chat_name: str = ""
    reason: str = ""

    @classmethod
    def of(cls, row: SenderRow) -> "SenderView":
        return cls(
            row.sender_id,
            row.count,
            row.first_at.isoformat(),
            row.last_at.isoformat(),
            row.name,
            row.handle,
            row.chat,
            row.chat_name,
            row.reason,
        )


class Senders(msgspec.Struct):
    senders: list[SenderView]


async def listed(call: Call) -> Senders:
    database = call.services.database
    if await bindings.one(database, call.user.id, call.path("id")) is None:
        raise not_found("connection")
    rows = await senders.listed(database, call.path("id"), limit=call.number("limit", PAGE, most=1000))
    return Senders([SenderView.of(row) for row in rows])


async def allow(call: Call) -> BindingView:
    """Put a sender of the log on the allowlist, by ID (BIND-21)."""
    binding_id, sender = call.path("id"), call.path("sender")
    async with call.services.database.transaction() as connection:
        row = await bindings.lock(connection, call.user.id, binding_id)
        if row is None:
            raise not_found("connection")
        if not await senders.known(connection, binding_id, sender):
            raise not_found("sender")
        entries = checked_allow([*row.allow, sender])
        if len(entries) > MOST_ALLOWED:
            raise conflict(f"the allowlist holds {MOST_ALLOWED} entries already", "allow")
        if entries != row.allow:
            await bindings.change(connection, binding_id, {"allow": entries})
            await audit.write(connection, call.user.id, "binding.allow", binding_id)
    changed(call, binding_id)
    return await view(call, binding_id)


ROUTES = [
    Route(
        "GET",
        "/api/chats/connectors/{id}/senders",
        listed,
        "Who wrote to the bot",
        "connectors",
        query=("limit",),
    ),
    Route(
        "POST",
        "/api/chats/connectors/{id}/senders/{sender}/allow",
        allow,
        "Let a sender of the log in",
        "connectors",
    ),
]
