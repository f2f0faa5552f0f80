"""The web application of a frontend: health, API and pages behind one middleware."""

from aiohttp import web

from services.frontend import pages
from services.frontend.api import openapi
from services.frontend.api.events import STREAMS, OpenStreams
from services.frontend.api.middleware import answer_for_errors
from services.frontend.api.passwords import PASSWORDS, THROTTLE, Passwords, Throttle
from services.frontend.api.routes import LARGEST_BODY
from services.frontend.api.running import RUNNING, RunningAddons
from services.frontend.api.services import SERVICES, Services
from services.frontend.api.table import ROUTES
from shared.observe.health import Health


def build_app(services: Services, health: Health) -> web.Application:
    app = web.Application(client_max_size=LARGEST_BODY, middlewares=[answer_for_errors])
    app[SERVICES] = services
    app[PASSWORDS], app[THROTTLE] = Passwords(), Throttle()
    app[RUNNING] = RunningAddons(services.carrier)
    app[STREAMS] = OpenStreams()
    app.on_shutdown.append(app[STREAMS].close)
    app.add_routes(health.routes())
    app.add_routes([route.bind() for route in ROUTES])
    app.add_routes([openapi.serve(ROUTES)])
    app.add_routes(pages.routes())
    return app
