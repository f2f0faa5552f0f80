"""Every route of the HTTP API, in one table."""

from services.frontend.api import (
    addons,
    agents,
    bindings,
    chats,
    cluster,
    doubtful,
    kinds,
    models,
    notifications,
    senders,
    sign_in,
    users,
)
from services.frontend.api.routes import Route

ROUTES: list[Route] = [
    *sign_in.ROUTES,
    *users.ROUTES,
    *models.ROUTES,
    *agents.ROUTES,
    *chats.ROUTES,
    # Before the bindings: `kinds` is not the ID of one.
    *kinds.ROUTES,
    *bindings.ROUTES,
    *senders.ROUTES,
    *doubtful.ROUTES,
    *addons.ROUTES,
    *notifications.ROUTES,
    *cluster.ROUTES,
]
