"""Error answers in the form of the model API."""

from typing import Any

import orjson
from aiohttp import web


class ModelError(Exception):
    def __init__(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param

    def response(self) -> web.Response:
        body = error_body(self.status, self.message, code=self.code, param=self.param)
        return web.Response(status=self.status, body=orjson.dumps(body), content_type="application/json")


def error_body(
    status: int, message: str, *, code: str | None = None, param: str | None = None
) -> dict[str, Any]:
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(
        status, "server_error" if status >= 500 else "invalid_request_error"
    )
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def unknown_model(name: Any) -> ModelError:
    return ModelError(
        404,
        f"The model `{name}` does not exist or you do not have access to it.",
        code="model_not_found",
    )
