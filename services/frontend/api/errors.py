"""What an API client hears when something does not work: one envelope, closed sets of types.

    {"error": {"type", "message", "param"?, "code"?}}

`type` is what a program decides by, `param` names the field (or the thing) at fault, `code` says more exactly.
A message is a sentence for a person and never an internal text.
"""

from typing import Literal, get_args

import msgspec
from aiohttp import web

from shared.domain.errors import (
    AddonNotRunning,
    CallerFenced,
    Deadline,
    Denied,
    Failure,
    OutcomeUnknown,
    OwnerFenced,
    OwnerUnreachable,
    OwnerUnready,
    PlatformLimited,
    PlatformRefused,
    PlatformUnavailable,
    TooLarge,
)

ErrorType = Literal[
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "not_found_error",
    "method_not_allowed",
    "conflict_error",
    "duplicate_connection",
    "too_large",
    "unsupported_media_type",
    "rate_limit_error",
    "outcome_unknown",
    "server_error",
    "owner_unavailable",
    "addon_unavailable",
    "platform_unavailable",
    "store_unavailable",
]
ERROR_TYPES: tuple[str, ...] = get_args(ErrorType)

#: failure of the closed set -> (status, type); what is not here is a fault of ours
_FAILURES: dict[type[Failure], tuple[int, ErrorType]] = {
    OwnerUnreachable: (503, "owner_unavailable"),
    OwnerUnready: (503, "owner_unavailable"),
    OwnerFenced: (503, "owner_unavailable"),
    AddonNotRunning: (503, "addon_unavailable"),
    PlatformUnavailable: (503, "platform_unavailable"),
    PlatformLimited: (503, "platform_unavailable"),
    Deadline: (503, "platform_unavailable"),
    PlatformRefused: (400, "invalid_request_error"),
    TooLarge: (413, "too_large"),
    Denied: (403, "permission_error"),
    CallerFenced: (409, "conflict_error"),
    OutcomeUnknown: (502, "outcome_unknown"),
}


class ErrorBody(msgspec.Struct, omit_defaults=True):
    type: ErrorType
    message: str
    param: str | None = None
    code: str | None = None


class ErrorEnvelope(msgspec.Struct):
    """The body of every answer that is not a success."""

    error: ErrorBody


class ApiError(Exception):
    """Ends a request with this answer."""

    def __init__(
        self,
        status: int,
        kind: ErrorType,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = ErrorBody(kind, message, param, code)
        self.headers = headers or {}

    def response(self) -> web.Response:
        return web.Response(
            status=self.status,
            body=msgspec.json.encode(ErrorEnvelope(self.body)),
            content_type="application/json",
            headers=self.headers,
        )


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, "invalid_request_error", message, param=param, code=code)


def not_found(what: str) -> ApiError:
    """The same for what does not exist and for what is another's."""
    return ApiError(404, "not_found_error", f"there is no such {what}")


def conflict(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(409, "conflict_error", message, param=param, code=code)


def failed(failure: Failure) -> ApiError:
    """A failure of the owner, an add-on or a platform, as the API says it."""
    if isinstance(failure, PlatformRefused):
        if failure.reason == "gone":
            return ApiError(404, "not_found_error", failure.message, code=failure.code)
        return ApiError(400, "invalid_request_error", failure.message, code=failure.reason)
    status, kind = _FAILURES.get(type(failure), (500, "server_error"))
    if status == 500:
        return broken()
    headers = (
        {"Retry-After": str(max(1, round(failure.seconds)))} if isinstance(failure, PlatformLimited) else {}
    )
    return ApiError(status, kind, failure.message, code=failure.code, headers=headers)


def broken() -> ApiError:
    return ApiError(500, "server_error", "something went wrong on the server; its log says what")


def store_away() -> ApiError:
    message = "the server cannot reach its database: try again in a moment"
    return ApiError(503, "store_unavailable", message, headers={"Retry-After": "1"})


def of_http(problem: web.HTTPException) -> ApiError:
    """What aiohttp itself refuses: no such route, another method, too large a body."""
    if problem.status == 404:
        return ApiError(404, "not_found_error", "there is no such address")
    if problem.status == 405:
        allowed = {"Allow": problem.headers["Allow"]} if "Allow" in problem.headers else {}
        return ApiError(405, "method_not_allowed", "this address does not take this method", headers=allowed)
    if problem.status == 413:
        return ApiError(413, "too_large", "the body is larger than 1 MiB")
    return ApiError(400, "invalid_request_error", "the request cannot be read")


def of_validation(problem: msgspec.DecodeError) -> ApiError:
    """What is wrong with a body, with the field by name."""
    text = str(problem)
    if not isinstance(problem, msgspec.ValidationError):
        return invalid("the body is not valid JSON")
    named, place = (text.partition(mark)[2].partition("`")[0] for mark in ("field `", "at `$"))
    param = ".".join(part for part in (place.lstrip("."), named) if part)
    return invalid(_readable(text), param or None)


def _readable(text: str) -> str:
    sentence = text.replace("Object", "the body", 1) if text.startswith("Object") else text
    return sentence.replace(" - at `$", " at `", 1).replace("at `.", "at `", 1)
