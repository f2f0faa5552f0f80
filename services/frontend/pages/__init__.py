"""The web UI: the server renders, nothing of it needs a script.

- `render`: templates and the headers of a page; `forms`: what a form sent, and from where.
- `setup`, `sign_in`, `overview`: one module a page.
"""

from pathlib import Path

from aiohttp import web

from services.frontend.pages import overview, setup, sign_in
from services.frontend.pages.render import readable

STATIC = Path(__file__).parent / "static"


def routes() -> list[web.AbstractRouteDef]:
    """All pages and their static files."""
    return [
        web.get("/", readable(overview.show)),
        web.get("/sign-in", readable(sign_in.show)),
        web.post("/sign-in", readable(sign_in.submit)),
        web.post("/sign-out", readable(sign_in.leave)),
        web.get("/setup", readable(setup.show)),
        web.post("/setup", readable(setup.submit)),
        web.static("/static", STATIC),
    ]
