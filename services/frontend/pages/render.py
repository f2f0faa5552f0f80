"""Templates, and the headers that every page goes out with."""

from pathlib import Path
from typing import Any

import jinja2
from aiohttp import web

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)

#: everything comes from here, nothing is inline, nobody frames it, forms go nowhere else
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def page(template: str, *, status: int = 200, **values: Any) -> web.Response:
    body = _TEMPLATES.get_template(template).render(**values)
    return web.Response(text=body, status=status, content_type="text/html", headers=HEADERS)


def see_other(place: str) -> web.Response:
    """Send the browser on with a GET, after a form."""
    return web.Response(status=303, headers={"Location": place, "Cache-Control": "no-store"})
