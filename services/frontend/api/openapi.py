"""`GET /openapi.json`: OpenAPI 3.1, made from the route table."""

from typing import Any

import msgspec
import orjson
from aiohttp import web

from services.frontend.api.errors import ErrorEnvelope
from services.frontend.api.identity import COOKIE, CSRF_HEADER
from services.frontend.api.routes import Route
from shared.version import VERSION

Refs = dict[type[msgspec.Struct], dict[str, Any]]
"""Body and reply types, and how their schemas are referred to."""
_REFS = "#/components/schemas/{name}"


def describe(routes: list[Route]) -> dict[str, Any]:
    """The description of these routes."""
    kinds = {kind for route in routes for kind in (route.body, route.reply) if kind is not None}
    ordered: list[type[msgspec.Struct]] = [ErrorEnvelope, *sorted(kinds, key=lambda kind: kind.__qualname__)]
    schemas, components = msgspec.json.schema_components(ordered, ref_template=_REFS)
    refs = dict(zip(ordered, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, refs)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Trunkline", "version": VERSION},
        "security": [{"key": []}, {"session": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "An API key, `tl_...`"},
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": COOKIE,
                    "description": f"A sign-in. Methods that change something also need {CSRF_HEADER}.",
                },
            },
        },
    }


def _operation(route: Route, refs: Refs) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": f"{route.tag}.{route.handler.__name__}",
        "summary": route.summary,
        "tags": [route.tag],
        "parameters": _parameters(route),
        "responses": {
            _status(route): _success(route, refs),
            "default": {"description": "What went wrong", "content": _json(refs[ErrorEnvelope])},
        },
    }
    if route.authority == "anyone":
        operation["security"] = []
    else:
        operation["x-authority"] = route.authority
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _json(refs[route.body])}
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in route.parameters
    ]
    return in_path + [{"name": name, "in": "query", "schema": {"type": "string"}} for name in route.query]


def _status(route: Route) -> str:
    return "204" if route.reply is None and not route.streams else str(route.status)


def _success(route: Route, refs: Refs) -> dict[str, Any]:
    if route.streams:
        return {"description": "Events", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
    if route.reply is None:
        return {"description": "Done"}
    return {"description": "Done", "content": _json(refs[route.reply])}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def serve(routes: list[Route]) -> web.RouteDef:
    """The route that answers with the description; it holds no secret and needs no sign-in."""
    body = orjson.dumps(describe(routes))

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    return web.get("/openapi.json", answer)
