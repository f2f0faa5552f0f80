"""`/`: the cluster, my agents and my connections at a glance."""

from aiohttp import web

from services.frontend.api import cluster
from services.frontend.api.binding_views import all_views
from services.frontend.api.call import Call
from services.frontend.api.identity import identify
from services.frontend.api.services import SERVICES
from services.frontend.pages.render import page, see_other
from shared.store import agents
from shared.version import VERSION


async def show(request: web.Request) -> web.Response:
    signed_in = await identify(request)
    if signed_in is None:
        return see_other("/sign-in")
    services, user = request.app[SERVICES], signed_in.user
    return page(
        "overview.html",
        user=user,
        csrf=signed_in.csrf,
        version=VERSION,
        agents=await agents.listed(services.database, user.id) if user.may("agents") else [],
        bindings=await all_views(Call(request, signed_in)) if user.may("connectors") else [],
        cluster=await cluster.describe(services) if user.role == "admin" else None,
    )
