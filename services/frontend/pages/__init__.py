"""The web UI: the server renders, nothing of it needs a script.

- `render`: templates and the headers of a page; `forms`: what a form sent, and from where.
- `setup`, `sign_in`, `overview`: one module a page.
"""

from pathlib import Path

from aiohttp import web

from services.frontend.pages import overview, setup, sign_in

STATIC = Path(__file__).parent / "static"


def routes() -> list[web.AbstractRouteDef]:
    """All pages and their static files."""
    return [
        web.get("/", overview.show),
        web.get("/sign-in", sign_in.show),
        web.post("/sign-in", sign_in.submit),
        web.post("/sign-out", sign_in.leave),
        web.get("/setup", setup.show),
        web.post("/setup", setup.submit),
        web.static("/static", STATIC),
    ]
