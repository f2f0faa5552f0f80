"""The HTTP API: one module a resource.

- `routes`: how a route is declared and becomes a handler; `table`: all of them; `openapi`: their description.
- `call`: a request as a handler sees it; `identity`: who calls; `errors` and `middleware`: what goes wrong.
- `sign_in`, `users`, `agents`, `models`, `chats`, `events`, `bindings`, `senders`, `addons`, `cluster`,
  `notifications`: the resources.
"""

from aiohttp import web

from services.frontend.api.middleware import answer_for_errors
from services.frontend.api.passwords import PASSWORDS, THROTTLE, Passwords, Throttle
from services.frontend.api.routes import LARGEST_BODY
from services.frontend.api.running import RUNNING, RunningAddons
from services.frontend.api.services import SERVICES, Services
from services.frontend.api.table import ROUTES
from shared.observe.health import Health


def build_app(services: Services, health: Health) -> web.Application:
    """The whole application of a frontend."""
    app = web.Application(client_max_size=LARGEST_BODY, middlewares=[answer_for_errors])
    app[SERVICES] = services
    app[PASSWORDS], app[THROTTLE] = Passwords(), Throttle()
    app[RUNNING] = RunningAddons(services.carrier)
    app.add_routes(health.routes())
    app.add_routes([route.bind() for route in ROUTES])
    return app
