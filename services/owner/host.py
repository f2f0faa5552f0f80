"""What add-ons may ask of the host, over a socket of the host's: now `connector.inbound`, for kinds that push.

Who asks is known by the per-start credential; the host policy says which add-on may use which operation.
"""

import hmac
import json
from typing import Any

import msgspec
import structlog
from aiohttp import web

from services.owner.addons import Addons, Running
from services.owner.root import Root
from shared.bus import Bus, subjects
from shared.domain.errors import Denied, Failure, OwnerUnready, PlatformRefused, WireFailure
from shared.sdk.ops import Inbound
from shared.store import Database, StoreUnavailable, bindings, intake

log = structlog.get_logger(__name__)

#: largest body of a host operation, in bytes
BODY_BYTES = 256 * 1024
#: operation -> add-ons that may use it; `*` is every installed one
SHIPPED_POLICY = {"connector.inbound": ["*"]}


class _Pushed(msgspec.Struct):
    binding: str
    message: Inbound


class HostOperations:
    """A Service that listens on `host.sock` (0600) while the owner may act."""

    def __init__(self, database: Database, bus: Bus, addons: Addons, root: Root) -> None:
        self._database = database
        self._bus = bus
        self._addons = addons
        self._root = root
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application(client_max_size=BODY_BYTES)
        app.router.add_post("/v1/host/connector.inbound", self._inbound)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        path = self._root.sockets / "host.sock"
        await web.UnixSite(self._runner, str(path)).start()
        path.chmod(0o600)

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _inbound(self, request: web.Request) -> web.Response:
        """Store a pushed message before it is acknowledged (CLU-07)."""
        try:
            addon = self._caller(request)
            self._check_policy("connector.inbound", addon)
            pushed = _decoded(await request.read())
            await self._store(addon, pushed)
        except Failure as failure:
            return web.json_response({"error": msgspec.to_builtins(WireFailure.of(failure))}, status=400)
        return web.json_response({"result": {}})

    async def _store(self, addon: Running, pushed: _Pushed) -> None:
        try:
            row = await bindings.access(self._database, pushed.binding)
            kind = addon.kind(row.kind) if row is not None and row.addon in {"", addon.id} else None
            if kind is None or kind.delivery != "push":
                raise PlatformRefused("this add-on serves no such connection that pushes", reason="gone")
            if await intake.store_pushed(self._database, pushed.binding, pushed.message):
                ready = subjects.InboundReady(binding=pushed.binding, chat=pushed.message.chat)
                self._bus.publish(subjects.INBOUND_READY, ready)
        except StoreUnavailable:
            raise OwnerUnready("the database is away; hand the message over again") from None

    def _caller(self, request: web.Request) -> Running:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        for addon in self._addons.running():
            if hmac.compare_digest(addon.credential.encode(), given.encode()):
                return addon
        raise Denied("this credential is not one of a running add-on")

    def _check_policy(self, operation: str, addon: Running) -> None:
        """The policy file of the root, else the shipped one; a file that cannot be read allows nothing."""
        path = self._root.folder / "host-policy.json"
        policy: Any = SHIPPED_POLICY
        if path.exists():
            try:
                policy = json.loads(path.read_bytes())
            except (OSError, ValueError):
                log.exception("host_policy_unreadable")
                policy = {}
        allowed = policy.get(operation, []) if isinstance(policy, dict) else []
        if addon.id not in allowed and "*" not in allowed:
            raise Denied(f"the host policy does not let {addon.id} use {operation}")


def _decoded(body: bytes) -> _Pushed:
    try:
        return msgspec.json.decode(body, type=_Pushed)
    except (msgspec.MsgspecError, UnicodeDecodeError) as problem:
        raise PlatformRefused(f"the message does not fit: {problem}") from None
