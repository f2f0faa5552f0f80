"""Signing in and out, who I am, and API keys."""

from typing import Annotated

import msgspec
import structlog
from aiohttp import web

from services.frontend.api.call import Call
from services.frontend.api.errors import ApiError, not_found
from services.frontend.api.identity import COOKIE
from services.frontend.api.passwords import PASSWORDS, THROTTLE
from services.frontend.api.routes import Route
from services.frontend.api.services import SERVICES
from services.frontend.api.views import Name, UserView, clean
from shared.store import audit, people, sessions
from shared.store.sessions import ApiKey

log = structlog.get_logger(__name__)


class Credentials(msgspec.Struct, forbid_unknown_fields=True):
    name: Annotated[str, msgspec.Meta(max_length=80)]
    password: Annotated[str, msgspec.Meta(max_length=256)]


class Me(msgspec.Struct):
    """`csrf_token` is empty for an API key: it is needed with the session cookie only."""

    user: UserView
    csrf_token: str


class KeyView(msgspec.Struct):
    id: str
    name: str
    created_at: str
    used_at: str | None

    @classmethod
    def of(cls, key: ApiKey) -> "KeyView":
        used = key.used_at.isoformat() if key.used_at else None
        return cls(key.id, key.name, key.created_at.isoformat(), used)


class Keys(msgspec.Struct):
    api_keys: list[KeyView]


class KeyNew(msgspec.Struct, forbid_unknown_fields=True):
    name: Name


class KeyMade(msgspec.Struct):
    """`key` is shown this once; only its hash is kept."""

    api_key: KeyView
    key: str


async def sign_in(call: Call, body: Credentials) -> Me:
    token, csrf, user = await check_password(call.request, body.name, body.password)
    call.headers["Set-Cookie"] = session_cookie(call.request, token)
    return Me(UserView.of(user), csrf)


async def check_password(request: web.Request, name: str, password: str) -> tuple[str, str, people.User]:
    """(session token, CSRF token, user). Raises ApiError 401 or 429; nothing tells which of the two was wrong."""
    services, throttle = request.app[SERVICES], request.app[THROTTLE]
    name = clean(name)
    keys = (f"name {name.lower()}", f"address {request.remote or ''}")
    wait = throttle.begin(*keys)
    if wait:
        log.warning("sign_in_throttled")
        raise ApiError(
            429,
            "rate_limit_error",
            "too many failed sign-ins: wait a few minutes",
            headers={"Retry-After": str(int(wait) + 1)},
        )
    found = None if "\x00" in name else await people.password_hash(services.database, name)
    if not await request.app[PASSWORDS].matches(found[1] if found else None, password) or found is None:
        raise ApiError(401, "authentication_error", "name or password is wrong")
    user = await people.one(services.database, found[0])
    if user is None or user.disabled_at is not None:
        raise ApiError(401, "authentication_error", "name or password is wrong")
    throttle.succeeded(*keys)
    token, csrf = await sessions.begin(services.database, user.id, hours=services.settings.http.session_hours)
    return token, csrf, user


async def sign_out(call: Call) -> None:
    await end_session(call.request)


async def end_session(request: web.Request) -> None:
    """Forget the sign-in of the cookie; a cookie that is left in the browser names nothing any more."""
    await sessions.end(request.app[SERVICES].database, request.cookies.get(COOKIE, ""))


async def me(call: Call) -> Me:
    assert call.signed_in is not None
    return Me(UserView.of(call.user), call.signed_in.csrf)


async def list_keys(call: Call) -> Keys:
    keys = await sessions.keys_of(call.services.database, call.user.id)
    return Keys([KeyView.of(key) for key in keys])


async def make_key(call: Call, body: KeyNew) -> KeyMade:
    async with call.services.database.transaction() as connection:
        made, key = await sessions.add_key(connection, call.user.id, clean(body.name))
        await audit.write(connection, call.user.id, "api_key.add", made.id)
    return KeyMade(KeyView.of(made), key)


async def remove_key(call: Call) -> None:
    async with call.services.database.transaction() as connection:
        if not await sessions.remove_key(connection, call.user.id, call.path("id")):
            raise not_found("API key")
        await audit.write(connection, call.user.id, "api_key.remove", call.path("id"))


def session_cookie(request: web.Request, token: str) -> str:
    """The Set-Cookie of a sign-in: not for scripts, not from other sites."""
    http = request.app[SERVICES].settings.http
    response = web.Response()
    response.set_cookie(
        COOKIE,
        token,
        max_age=int(http.session_hours * 3600),
        httponly=True,
        samesite="Lax",
        secure=http.secure_cookies,
        path="/",
    )
    return response.cookies[COOKIE].OutputString()


ROUTES = [
    Route("POST", "/api/auth/sign-in", sign_in, "Sign in with name and password", "anyone"),
    Route("POST", "/api/auth/sign-out", sign_out, "End this sign-in"),
    Route("GET", "/api/auth/me", me, "Who I am, and the CSRF token of my sign-in"),
    Route("GET", "/api/auth/api-keys", list_keys, "My API keys"),
    Route("POST", "/api/auth/api-keys", make_key, "Make an API key", status=201, browser=True),
    Route("DELETE", "/api/auth/api-keys/{id}", remove_key, "Withdraw an API key"),
]
