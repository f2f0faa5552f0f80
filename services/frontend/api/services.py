"""What handlers work with: the collaborators of one frontend, handed over by the composition root."""

from dataclasses import dataclass

from aiohttp import web

from services.frontend.catalog import Catalog
from services.frontend.model import ModelClient
from services.frontend.turns.pool import TurnPool
from shared.bus import Bus
from shared.carrier import Carrier
from shared.config import Settings
from shared.sealing import KeyRing
from shared.store import Database


@dataclass(frozen=True, slots=True)
class Services:
    """All of them are started before the first request is served."""

    settings: Settings
    database: Database
    bus: Bus
    carrier: Carrier
    ring: KeyRing
    model: ModelClient
    catalog: Catalog
    pool: TurnPool
    frontend_id: str


SERVICES = web.AppKey("SERVICES", Services)
