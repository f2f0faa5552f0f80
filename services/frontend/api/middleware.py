"""Around every request: errors become answers, answers are counted."""

from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from services.frontend.api import errors
from services.frontend.api.errors import ApiError
from shared.domain.errors import Failure
from shared.observe import metrics
from shared.store import StoreUnavailable

log = structlog.get_logger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@web.middleware
async def answer_for_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """One place that knows what each problem looks like from outside."""
    try:
        response = await handler(request)
    except web.HTTPException as problem:
        if problem.status < 400:
            _count(request, problem.status)
            raise
        response = errors.of_http(problem).response()
    except ApiError as problem:
        response = problem.response()
    except Failure as problem:
        response = errors.failed(problem).response()
    except StoreUnavailable as problem:
        log.info("request_without_database", route=_route(request), problem=str(problem))
        response = errors.store_away().response()
    except Exception:
        log.exception("request_failed", route=_route(request), method=request.method)
        response = errors.broken().response()
    _count(request, response.status)
    if not response.prepared:
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
    return response


def _route(request: web.Request) -> str:
    """The address as it was declared: a label must not grow with what is asked for."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else "none"


def _count(request: web.Request, status: int) -> None:
    metrics.HTTP_REQUESTS.labels(route=_route(request), status=f"{status // 100}xx").inc()
