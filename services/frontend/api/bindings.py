"""Bindings: the bots of a user. Saving is in `binding_saves`."""

import msgspec
import structlog

from services.frontend.api import binding_saves
from services.frontend.api.binding_saves import changed
from services.frontend.api.binding_views import all_views, view
from services.frontend.api.call import Call
from services.frontend.api.connector_types import Account, BindingChange, BindingNew, BindingView
from services.frontend.api.errors import failed, invalid, not_found
from services.frontend.api.routes import Route
from services.frontend.api.running import OWNER_AWAY
from shared.carrier import operations as ops
from shared.domain.errors import Bug, Failure
from shared.sdk.ops import Me
from shared.store import agents, audit, bindings, people

log = structlog.get_logger(__name__)


class Connectors(msgspec.Struct):
    """`shared` are those that others share with you; `sharing` is off where this server cannot share."""

    connectors: list[BindingView]
    shared: list[BindingView]
    sharing: bool


class TestResult(msgspec.Struct, omit_defaults=True):
    """Whose bot the stored token is, or why that could not be told."""

    ok: bool
    account: Account | None = None
    reason: str = ""
    code: str = ""


async def listed(call: Call) -> Connectors:
    return Connectors(await all_views(call), [], sharing=False)


async def create(call: Call, body: BindingNew) -> BindingView:
    binding_id, warning = await binding_saves.create(call, body)
    return await view(call, binding_id, warning=warning)


async def read(call: Call) -> BindingView:
    return await view(call, call.path("id"))


async def change(call: Call, body: BindingChange) -> BindingView:
    warning = await binding_saves.change(call, call.path("id"), body)
    return await view(call, call.path("id"), warning=warning)


async def remove(call: Call) -> None:
    binding_id = call.path("id")
    async with call.services.database.transaction() as connection:
        if not await bindings.remove(connection, call.user.id, binding_id):
            raise not_found("connection")
        await audit.write(connection, call.user.id, "binding.remove", binding_id)
    changed(call, binding_id)


async def enable(call: Call) -> BindingView:
    """Switch on; a twin is not asked about here, its warning shows at once (TWIN-16)."""
    binding_id = call.path("id")
    async with call.services.database.transaction() as connection:
        await people.lock(connection, call.user.id)
        row = await bindings.lock(connection, call.user.id, binding_id)
        if row is None:
            raise not_found("connection")
        kind = await call.services.catalog.kind(row.kind, row.addon)
        if kind is not None and kind.tool_only:
            raise invalid(f"{kind.title} is used as a tool and cannot be switched on", "enabled")
        agent = await agents.one(connection, call.user.id, row.agent_id or "")
        if agent is None or not agent.model:
            raise invalid("choose an agent that has a model first", "agent_id")
        if not row.enabled:
            await bindings.change(connection, binding_id, {"enabled": True, "off_reason": ""})
            await audit.write(connection, call.user.id, "binding.enable", binding_id)
    changed(call, binding_id)
    return await view(call, binding_id)


async def disable(call: Call) -> BindingView:
    binding_id = call.path("id")
    async with call.services.database.transaction() as connection:
        row = await bindings.lock(connection, call.user.id, binding_id)
        if row is None:
            raise not_found("connection")
        if row.enabled:
            await bindings.change(connection, binding_id, {"enabled": False, "off_reason": ""})
            await audit.write(connection, call.user.id, "binding.disable", binding_id)
    changed(call, binding_id)
    return await view(call, binding_id)


async def test(call: Call) -> TestResult:
    """Ask the platform again whose token it is. What it says is the result, not an error of this request."""
    binding_id = call.path("id")
    if await bindings.one(call.services.database, call.user.id, binding_id) is None:
        raise not_found("connection")
    try:
        me = await call.services.carrier.call(ops.TEST, ops.Test(binding_id), actor=call.user.id)
    except (*OWNER_AWAY, Bug) as failure:
        raise failed(failure) from failure
    except Failure as failure:
        return TestResult(ok=False, reason=failure.message, code=failure.code)
    await _learn_account(call, binding_id, me)
    return TestResult(ok=True, account=Account(me.account_id, me.name or me.handle))


async def _learn_account(call: Call, binding_id: str, me: Me) -> None:
    """Complete a binding that was saved while the platform was away (CLU-27)."""
    async with call.services.database.transaction() as connection:
        row = await bindings.lock(connection, call.user.id, binding_id)
        if row is not None and not row.account_id and me.account_id:
            account = {"account_id": me.account_id[:128], "account_name": (me.name or me.handle)[:128]}
            await bindings.change(connection, binding_id, account)
    if row is not None and not row.account_id:
        changed(call, binding_id)


_ROOT = "/api/chats/connectors"
ROUTES = [
    Route("GET", _ROOT, listed, "My connections", "connectors"),
    Route("POST", _ROOT, create, "Connect a bot to one of my agents", "connectors", status=201),
    Route("GET", f"{_ROOT}/{{id}}", read, "One of my connections", "connectors"),
    Route("PUT", f"{_ROOT}/{{id}}", change, "Change a connection; what is absent stays", "connectors"),
    Route("DELETE", f"{_ROOT}/{{id}}", remove, "Delete a connection", "connectors"),
    Route("POST", f"{_ROOT}/{{id}}/enable", enable, "Switch a connection on", "connectors"),
    Route("POST", f"{_ROOT}/{{id}}/disable", disable, "Switch a connection off", "connectors"),
    Route("POST", f"{_ROOT}/{{id}}/test", test, "Ask the platform whose token it is", "connectors"),
]
