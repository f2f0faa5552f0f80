"""Who calls, and whether they may: session cookie or API key, CSRF token, role, feature."""

import hmac

from aiohttp import web

from services.frontend.api.errors import ApiError
from services.frontend.api.services import SERVICES
from shared.store import sessions
from shared.store.sessions import SignedIn

COOKIE = "session"
CSRF_HEADER = "X-CSRF-Token"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


async def admitted(request: web.Request, authority: str, *, browser: bool = False) -> SignedIn | None:
    """The caller, when this authority admits them; None only for `anyone`. Raises ApiError (401, 403).

    With `browser` an API key is not enough: what makes new keys must not be reached with one that leaked.
    """
    if authority == "anyone":
        return None
    signed_in = await identify(request)
    if signed_in is None:
        raise ApiError(
            401, "authentication_error", "sign in, or send an API key", headers={"WWW-Authenticate": "Bearer"}
        )
    if browser and not signed_in.csrf:
        raise ApiError(403, "permission_error", "this needs a sign-in; an API key is not enough")
    if signed_in.csrf and request.method not in _SAFE:
        check_csrf(signed_in, request.headers.get(CSRF_HEADER, ""))
    _check_right(signed_in, authority)
    return signed_in


async def identify(request: web.Request) -> SignedIn | None:
    """Who calls. A key that is sent and does not count is not made up for by a cookie."""
    database = request.app[SERVICES].database
    scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
    key = bearer.strip() if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
    if key:
        return await sessions.by_key(database, key)
    cookie = request.cookies.get(COOKIE, "")
    return await sessions.by_session(database, cookie) if cookie else None


def check_csrf(signed_in: SignedIn, given: str) -> None:
    """Raise ApiError 403 unless the CSRF token of the sign-in was sent along."""
    if not hmac.compare_digest(given.encode("utf-8", "replace"), signed_in.csrf.encode()):
        raise ApiError(
            403,
            "permission_error",
            f"send the CSRF token of your sign-in in the header {CSRF_HEADER}",
            code="csrf",
        )


def _check_right(signed_in: SignedIn, authority: str) -> None:
    if authority == "admin" and signed_in.user.role != "admin":
        raise ApiError(403, "permission_error", "this needs an administrator")
    if authority not in {"user", "admin"} and not signed_in.user.may(authority):
        raise ApiError(
            403,
            "permission_error",
            f"your account may not use {authority}; an administrator can switch it on",
            param=authority,
            code="feature_off",
        )
