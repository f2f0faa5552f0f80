"""Creating and changing a binding: what is asked of the owner first, and what is stored together.

Nothing is stored before the owner has answered for the kind and the token. An explicit no leaves everything as it
was; a platform that is out of reach just now does not stop a save (CLU-25 to CLU-29).
"""

from dataclasses import dataclass, replace
from typing import Any

import msgspec
import structlog

from services.frontend.api.binding_rules import (
    check_accept_any,
    check_agent,
    check_room,
    check_tool_only,
    check_twin,
)
from services.frontend.api.call import Call
from services.frontend.api.connector_types import (
    BindingChange,
    BindingNew,
    checked_options,
    checked_token,
    columns_of,
)
from services.frontend.api.errors import ApiError, conflict, invalid, not_found
from services.frontend.api.running import OWNER_AWAY, RUNNING, Found, find_kind
from shared.bus import subjects
from shared.carrier import operations as ops
from shared.domain.errors import (
    AddonNotRunning,
    Deadline,
    PlatformLimited,
    PlatformRefused,
    PlatformUnavailable,
)
from shared.domain.ids import new_id
from shared.sdk.manifest import Kind
from shared.sdk.ops import Me
from shared.store import Connection, audit, bindings, people
from shared.store.bindings import BindingRow, token_record

log = structlog.get_logger(__name__)

_TRY_LATER = (PlatformUnavailable, PlatformLimited, Deadline, AddonNotRunning)
_UNCHECKED = (
    "Saved. The platform could not be asked whose token it is; use Test when it can be reached again."
)


@dataclass(frozen=True, slots=True)
class Verified:
    """A sealed token, and whose it is; `me` is None when the platform could not be asked."""

    sealed: str
    me: Me | None

    @property
    def warning(self) -> str:
        return "" if self.me else _UNCHECKED

    def columns(self) -> dict[str, str]:
        me = self.me or Me()
        return {"account_id": me.account_id[:128], "account_name": (me.name or me.handle)[:128]}


async def create(call: Call, body: BindingNew) -> tuple[str, str]:
    """(ID, warning) of the new binding. Raises ApiError; then nothing was stored."""
    values = columns_of(body)
    check_accept_any(body.accept_any, body.confirm_accept_any)
    found = find_kind(await call.request.app[RUNNING].now(), body.kind)
    if found is None:
        raise invalid(f"no running add-on serves {body.kind!r}: install or start its add-on", "kind")
    checked_options(found.kind, body.options)
    check_tool_only(found.kind, body)
    await check_room(call.services.database, call)
    await check_agent(call.services.database, call, found.kind, body.agent_id)
    binding_id = new_id("bnd")
    verified = None
    if body.token.strip():
        take_over = body.take_over_webhook
        verified = await verify(call, binding_id, found, body.token, body.options, take_over=take_over)
    values |= {"kind": body.kind, "addon": found.addon} | (verified.columns() if verified else {})
    async with call.services.database.transaction() as connection:
        await people.lock(connection, call.user.id)
        # Again, now that nothing of this user moves: another request may have been faster.
        await check_room(connection, call)
        await check_agent(connection, call, found.kind, body.agent_id)
        await bindings.add(connection, call.user.id, binding_id, values)
        if verified:
            await bindings.set_token(connection, binding_id, verified.sealed)
        row = await bindings.lock(connection, call.user.id, binding_id)
        assert row is not None
        await check_twin(connection, call, row, body.confirm_duplicate)
        await audit.write(connection, call.user.id, "binding.add", binding_id, kind=body.kind)
    changed(call, binding_id)
    return binding_id, verified.warning if verified else ""


async def change(call: Call, binding_id: str, body: BindingChange) -> str:
    """Change a binding as a whole or not at all; the warning of the save. Raises ApiError."""
    values = columns_of(body)
    stored = await bindings.one(call.services.database, call.user.id, binding_id)
    if stored is None:
        raise not_found("connection")
    kind = await call.services.catalog.kind(stored.kind, stored.addon)
    if body.options:
        if kind is None:
            raise invalid("its add-on is not installed, so its options cannot be changed", "options")
        checked_options(kind, body.options)
    if kind is not None:
        check_tool_only(kind, body)
    verified = await _verify_change(call, stored, kind, body)
    async with call.services.database.transaction() as connection:
        await people.lock(connection, call.user.id)
        before = await bindings.lock(connection, call.user.id, binding_id)
        if before is None:
            raise not_found("connection")
        await _apply(connection, call, before, values, kind, body, verified)
        facts = {"fields": sorted(values), "token": body.token is not msgspec.UNSET}
        await audit.write(connection, call.user.id, "binding.change", binding_id, **facts)
    changed(call, binding_id)
    return verified.warning if verified else ""


async def _verify_change(
    call: Call, stored: BindingRow, kind: Kind | None, body: BindingChange
) -> Verified | None:
    if not body.token or not body.token.strip():
        if body.take_over_webhook and body.token is msgspec.UNSET:
            await _take_over(call, stored)
        return None
    options = stored.options if isinstance(body.options, msgspec.UnsetType) else body.options
    found = Found(stored.addon, kind or Kind(id=stored.kind, title=stored.kind, delivery="pull"))
    take_over = body.take_over_webhook
    return await verify(call, stored.id, found, body.token, options, take_over=take_over)


async def _take_over(call: Call, stored: BindingRow) -> None:
    """Remove the webhook of the stored token, as somebody asks who was told of it. Raises ApiError, Failure."""
    access = await bindings.access(call.services.database, stored.id)
    if access is None or not access.sealed:
        raise invalid("no token is saved, so there is no webhook to take over", "take_over_webhook")
    request = ops.Verify(stored.id, stored.kind, stored.addon, access.sealed, stored.options, True)
    try:
        await call.services.carrier.call(ops.VERIFY, request, actor=call.user.id)
    except PlatformRefused as refused:
        raise _token_refused(refused) from None


async def _apply(
    connection: Connection,
    call: Call,
    before: BindingRow,
    values: dict[str, Any],
    kind: Kind | None,
    body: BindingChange,
    verified: Verified | None,
) -> None:
    """Write a change to a locked binding."""
    if body.revision not in {msgspec.UNSET, before.revision}:
        raise conflict("somebody changed this connection meanwhile: read it again", "revision")
    if not before.accept_any:
        check_accept_any(bool(body.accept_any), body.confirm_accept_any)
    if verified:
        values = values | verified.columns()
    after = replace(before, **values)
    if after.enabled and not before.enabled:
        values = values | {"off_reason": ""}
    if (after.agent_id, after.enabled) != (before.agent_id, before.enabled):
        await check_agent(connection, call, kind, after.agent_id or "")
    await bindings.change(connection, before.id, values)
    if verified:
        await bindings.set_token(connection, before.id, verified.sealed)
        if verified.me is None or after.account_id != before.account_id:
            # Unknown counts as another account: reading twice is noticed, a message that is never read is not.
            await bindings.start_over(connection, before.id)
    elif body.token == "" or (body.token and not body.token.strip()):
        await bindings.clear_token(connection, before.id)
    await check_twin(connection, call, after, body.confirm_duplicate)


async def verify(
    call: Call, binding_id: str, found: Found, token: str, options: dict[str, str], *, take_over: bool
) -> Verified:
    """Ask whose token it is. Raises ApiError 400 for an explicit no, 503 when the owner is away."""
    sealed = call.services.ring.seal(checked_token(token), record=token_record(binding_id))
    request = ops.Verify(binding_id, found.kind.id, found.addon, sealed, options, take_over)
    try:
        me = await call.services.carrier.call(ops.VERIFY, request, actor=call.user.id)
    except PlatformRefused as refused:
        raise _token_refused(refused) from None
    except _TRY_LATER as failure:
        log.info("token_not_verified", binding=binding_id, code=failure.code)
        return Verified(sealed, None)
    except OWNER_AWAY as failure:
        message = f"{failure.message}; nothing was saved"
        raise ApiError(503, "owner_unavailable", message, code=failure.code) from failure
    return Verified(sealed, me)


def changed(call: Call, binding_id: str) -> None:
    """Tell the leader and the owner, after the commit."""
    call.services.bus.publish(subjects.BINDING_CHANGED, subjects.BindingChanged(), key=binding_id)


def _token_refused(refused: PlatformRefused) -> ApiError:
    if refused.detail.get("code") == "webhook_set":
        host = str(refused.detail.get("webhook", "another program"))[:200]
        message = (
            f"this bot sends its messages to a webhook at {host}; save again with take_over_webhook "
            "to remove that webhook and read the messages here"
        )
        return invalid(message, "take_over_webhook", "webhook_set")
    return invalid(refused.message, "token", refused.reason)
