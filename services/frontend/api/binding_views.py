"""Bindings as their owner sees them."""

from services.frontend.api.call import Call
from services.frontend.api.connector_types import Account, BindingView, duplicate_of, duplicate_view
from services.frontend.api.errors import not_found
from services.frontend.api.liveness_views import liveness_view
from services.frontend.api.running import RUNNING, Activity
from shared.store import bindings, liveness
from shared.store.bindings import BindingRow
from shared.store.liveness import Liveness


async def all_views(call: Call) -> list[BindingView]:
    """All bindings of the caller; an owner that is away only makes them not active."""
    rows = await bindings.listed(call.services.database, call.user.id)
    activity = await Activity.read(call.request.app[RUNNING], call.services.database)
    limit = call.services.settings.poll.silence_seconds
    links = await liveness.of_user(call.services.database, call.user.id, limit)
    return [_view(row, rows, activity, links.get(row.id)) for row in rows]


async def view(call: Call, binding_id: str, *, warning: str = "") -> BindingView:
    """One binding of the caller. Raises ApiError 404."""
    for each in await all_views(call):
        if each.id == binding_id:
            each.warning = warning
            return each
    raise not_found("connection")


def _view(row: BindingRow, rows: list[BindingRow], activity: Activity, link: Liveness | None) -> BindingView:
    kind = activity.kind(row)
    tool_only = kind is not None and kind.tool_only
    reason = activity.reason(row)
    title = kind.title if kind is not None else row.kind.capitalize()
    twin = duplicate_of(row, rows)
    return BindingView(
        id=row.id,
        kind=row.kind,
        addon=row.addon,
        name=row.name,
        agent_id="" if tool_only else row.agent_id or "",
        enabled=row.enabled,
        active=not reason,
        has_token=row.has_token,
        allow=row.allow,
        accept_any=row.accept_any,
        reply_mode=row.reply_mode,
        conversation=row.conversation,
        window_minutes=row.window_minutes,
        send_files=row.send_files,
        notify_chat=row.notify_chat,
        reply_language=row.reply_language,
        options=row.options,
        revision=row.revision,
        created_at=row.created_at.isoformat(),
        account=Account(row.account_id, row.account_name) if row.account_id else None,
        reason=reason,
        credentials_only=tool_only,
        duplicate=duplicate_view(twin) if twin else None,
        liveness=None if link is None or tool_only else liveness_view(link, title, row.off_reason),
    )
