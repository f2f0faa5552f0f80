"""A user's inbox."""

import msgspec

from services.frontend.api.call import PAGE, Call
from services.frontend.api.errors import not_found
from services.frontend.api.routes import Route
from services.frontend.api.views import Ok
from shared.store import notices
from shared.store.notices import Notification


class NotificationView(msgspec.Struct, omit_defaults=True):
    id: int
    sort: str
    title: str
    body: str
    read: bool
    created_at: str
    link: str = ""
    binding_id: str = ""

    @classmethod
    def of(cls, row: Notification) -> "NotificationView":
        read = row.read_at is not None
        created = row.created_at.isoformat()
        return cls(row.id, row.sort, row.title, row.body, read, created, row.link, row.binding_id)


class Inbox(msgspec.Struct):
    """`unread` counts all, not only this page."""

    notifications: list[NotificationView]
    unread: int


async def listed(call: Call) -> Inbox:
    database = call.services.database
    rows = await notices.listed(
        database, call.user.id, before=call.number("before", 0), limit=call.number("limit", PAGE, most=PAGE)
    )
    return Inbox([NotificationView.of(row) for row in rows], await notices.unread(database, call.user.id))


async def mark_read(call: Call) -> Ok:
    given = call.path("id")
    number = int(given) if given.isascii() and given.isdecimal() and len(given) < 19 else 0
    if not await notices.mark_read(call.services.database, call.user.id, number):
        raise not_found("notification")
    return Ok()


ROUTES = [
    Route(
        "GET", "/api/notifications", listed, "My notifications, the newest first", query=("before", "limit")
    ),
    Route("POST", "/api/notifications/{id}/read", mark_read, "Mark a notification as read"),
]
