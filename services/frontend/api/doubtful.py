"""Parts of answers that were refused, or that may or may not have been seen: what the owner of a bot may look at."""

from typing import Any

import msgspec

from services.frontend.api.call import PAGE, Call
from services.frontend.api.errors import not_found
from services.frontend.api.routes import Route
from shared.store import bindings, deliveries


class PartView(msgspec.Struct, omit_defaults=True):
    """`unknown` may be visible and is never sent again by itself; `failed` is not visible."""

    id: int
    chat: str
    purpose: str
    action: str
    state: str
    planned_at: str
    finished_at: str
    code: str
    message: str
    thread: str = ""

    @classmethod
    def of(cls, row: dict[str, Any]) -> "PartView":
        error = row["error"] or {}
        return cls(
            row["id"],
            row["chat"],
            row["purpose"],
            row["action"],
            row["state"],
            row["planned_at"].isoformat(),
            row["finished_at"].isoformat() if row["finished_at"] else "",
            error.get("code", ""),
            error.get("message", ""),
            row["thread"],
        )


class Doubtful(msgspec.Struct):
    parts: list[PartView]


async def listed(call: Call) -> Doubtful:
    database, binding_id = call.services.database, call.path("id")
    if await bindings.one(database, call.user.id, binding_id) is None:
        raise not_found("connection")
    rows = await deliveries.doubtful(database, binding_id, call.number("limit", PAGE, most=1000))
    return Doubtful([PartView.of(row) for row in rows])


ROUTES = [
    Route(
        "GET",
        "/api/chats/connectors/{id}/doubtful",
        listed,
        "Parts of answers that were refused or whose outcome is unknown, the newest first",
        "connectors",
        query=("limit",),
    )
]
