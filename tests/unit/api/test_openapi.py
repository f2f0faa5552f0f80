"""The description of the API is made from the table that the server is made from."""

from typing import Any

import jsonschema
import pytest

from services.frontend.api.errors import ERROR_TYPES
from services.frontend.api.openapi import describe
from services.frontend.api.routes import Route
from services.frontend.api.table import ROUTES

DOCUMENT = describe(ROUTES)


def test_every_route_is_described_with_its_parameters() -> None:
    described = {(path, method) for path, item in DOCUMENT["paths"].items() for method in item}
    assert described == {(route.path, route.method.lower()) for route in ROUTES}
    assert len(described) == len(ROUTES), "no two routes are the same"
    for route in ROUTES:
        operation = DOCUMENT["paths"][route.path][route.method.lower()]
        in_path = [p["name"] for p in operation["parameters"] if p["in"] == "path"]
        assert in_path == route.parameters


def test_operation_ids_are_unique_and_every_reference_leads_somewhere() -> None:
    ids = [operation["operationId"] for item in DOCUMENT["paths"].values() for operation in item.values()]
    assert len(set(ids)) == len(ids)
    components = DOCUMENT["components"]["schemas"]
    for reference in _references(DOCUMENT):
        assert reference.removeprefix("#/components/schemas/") in components


def test_every_schema_is_a_valid_json_schema() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_the_error_types_are_a_closed_set() -> None:
    assert DOCUMENT["components"]["schemas"]["ErrorBody"]["properties"]["type"]["enum"] == sorted(ERROR_TYPES)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_bodies_refuse_what_they_do_not_know(route: Route) -> None:
    if route.body is not None:
        assert route.body.__struct_config__.forbid_unknown_fields, route.body


def test_only_signing_in_needs_no_sign_in() -> None:
    assert [route.path for route in ROUTES if route.authority == "anyone"] == ["/api/auth/sign-in"]


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for each in value.values() for found in _references(each)]
    if isinstance(value, list):
        return [found for each in value for found in _references(each)]
    return []
