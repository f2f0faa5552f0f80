"""The cluster as an administrator sees it: frontends, owner, bus, database."""

import msgspec

from services.frontend.api.call import Call
from services.frontend.api.routes import Route
from services.frontend.api.services import Services
from shared.carrier import operations as ops
from shared.carrier.operations import Listed
from shared.domain.errors import Failure
from shared.store import leadership, presence, schema
from shared.version import VERSION


class FrontendView(msgspec.Struct):
    """`shards` are the parts of the bindings that it leads, `alive` is what the others think of it."""

    id: str
    version: str
    url: str
    started: str
    last_seen: str
    alive: bool
    shards: list[int]


class OwnerView(msgspec.Struct, omit_defaults=True):
    """`state` is ready, or the code of what keeps it from answering, with a sentence in `reason`."""

    state: str
    term: int = 0
    pid: int = 0
    version: str = ""
    reason: str = ""
    addons: list[Listed] = []


class BusView(msgspec.Struct):
    """`dropped` counts signals of this frontend that were lost; they are made up for by sweeping."""

    connected: bool
    dropped: int


class DatabaseView(msgspec.Struct):
    version: str
    revision: str
    pool_size: int


class ClusterView(msgspec.Struct):
    """`answered_by` is the frontend that was asked."""

    version: str
    answered_by: str
    frontends: list[FrontendView]
    owner: OwnerView
    bus: BusView
    database: DatabaseView


async def read(call: Call) -> ClusterView:
    return await describe(call.services)


async def describe(services: Services) -> ClusterView:
    """Raises StoreUnavailable; an owner that is away is part of the answer."""
    bus = services.bus
    return ClusterView(
        version=VERSION,
        answered_by=services.frontend_id,
        frontends=await _frontends(services),
        owner=await _owner(services),
        bus=BusView(bus.connected, bus.dropped),
        database=DatabaseView(
            version=await services.database.fetchval("SHOW server_version"),
            revision=await schema.current_revision(services.database),
            pool_size=services.settings.database.pool_size,
        ),
    )


async def _frontends(services: Services) -> list[FrontendView]:
    led: dict[str, list[int]] = {}
    takeover = services.settings.leader.takeover_seconds
    seen = await leadership.standing(services.database, takeover_seconds=takeover)
    for shard, holder in sorted(seen.led.items()):
        led.setdefault(holder, []).append(shard)
    return [
        FrontendView(
            row.id,
            row.version,
            row.url,
            row.started_at.isoformat(),
            row.seen_at.isoformat(),
            row.alive,
            led.get(row.id, []),
        )
        for row in await presence.frontends(services.database)
    ]


async def _owner(services: Services) -> OwnerView:
    try:
        status = await services.carrier.call(ops.STATUS, ops.Nothing())
    except Failure as failure:
        return OwnerView(failure.code, reason=failure.message)
    return OwnerView(status.state, status.term, status.pid, status.version, addons=status.addons)


ROUTES = [Route("GET", "/api/cluster", read, "Frontends, owner, bus and database", "admin")]
