"""The HTTP API: one module a resource."""

from aiohttp import web

from services.frontend.api.services import SERVICES, Services
from shared.observe.health import Health


def build_app(services: Services, health: Health) -> web.Application:
    """The whole application of a frontend."""
    app = web.Application()
    app[SERVICES] = services
    app.add_routes(health.routes())
    return app
