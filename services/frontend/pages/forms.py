"""What a form sent, and from where."""

from urllib.parse import urlsplit

from aiohttp import web

from services.frontend.api.errors import ApiError
from services.frontend.api.services import SERVICES


async def fields(request: web.Request) -> dict[str, str]:
    """The text fields of a form of ours. Raises ApiError 403 for a form of another site."""
    _refuse_other_sites(request)
    form = await request.post()
    return {name: value for name, value in form.items() if isinstance(value, str) and "\x00" not in value}


def _refuse_other_sites(request: web.Request) -> None:
    """Signing in has no session yet whose CSRF token could be asked for, so the browser's own words count."""
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    if site is not None:
        foreign = site not in {"same-origin", "none"}
    else:
        public = urlsplit(request.app[SERVICES].settings.http.public_url).netloc
        foreign = origin is not None and urlsplit(origin).netloc not in {request.host, public}
    if foreign:
        raise ApiError(403, "permission_error", "this form was sent from another site")
