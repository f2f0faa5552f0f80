"""Holds answers of the API against its own description."""

import re
from functools import cache
from typing import Any

import jsonschema

from services.frontend.api.openapi import describe
from services.frontend.api.table import ROUTES


def check_answer(method: str, path: str, status: int, answer: Any) -> None:
    """Fail when an answer of an API route is not the one that the description promises."""
    operation = _operation(method, path.partition("?")[0])
    if operation is None:
        return
    responses = operation["responses"]
    content = responses.get(str(status), responses["default"]).get("content", {})
    assert str(status) in responses or status >= 400, f"{method} {path} is not described to answer {status}"
    if "application/json" in content:
        _validator(content["application/json"]["schema"]["$ref"]).validate(answer)
    elif not content:
        assert answer == ""


def _operation(method: str, path: str) -> Any:
    for pattern, item in _paths().items():
        if re.fullmatch(pattern, path) and method.lower() in item:
            return item[method.lower()]
    return None


@cache
def _document() -> Any:
    return describe(ROUTES)


@cache
def _paths() -> dict[str, Any]:
    """Fixed addresses first: `/connectors/kinds` is not the connection `kinds`."""
    ordered = sorted(_document()["paths"].items(), key=lambda entry: entry[0].count("{"))
    return {re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)): item for path, item in ordered}


@cache
def _validator(reference: str) -> Any:
    schema = {"$ref": reference, "components": _document()["components"]}
    return jsonschema.Draft202012Validator(schema)
