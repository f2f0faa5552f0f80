"""Templates, and the headers that every page goes out with."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jinja2
from aiohttp import web

from services.frontend.api.errors import ApiError, store_away
from shared.store import StoreUnavailable

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


def readable(handler: Callable[[web.Request], Awaitable[web.Response]]) -> Callable[..., Any]:
    """The handler of a page, whose errors are pages too."""

    async def answer(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except StoreUnavailable:
            problem = store_away()
        except ApiError as refused:
            problem = refused
        sentence = problem.body.message[:1].upper() + problem.body.message[1:] + "."
        return page("problem.html", status=problem.status, sentence=sentence)

    return answer
