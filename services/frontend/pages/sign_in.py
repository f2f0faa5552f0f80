"""`/sign-in` and `/sign-out`."""

from aiohttp import web

from services.frontend.api.errors import ApiError
from services.frontend.api.identity import COOKIE, check_csrf, identify
from services.frontend.api.sign_in import check_password, end_session, session_cookie
from services.frontend.pages.forms import fields
from services.frontend.pages.render import page, see_other


async def show(request: web.Request) -> web.Response:
    if await identify(request) is not None:
        return see_other("/")
    return page("sign_in.html", name="", problem="")


async def submit(request: web.Request) -> web.Response:
    form = await fields(request)
    name = form.get("name", "")
    try:
        token, _, _ = await check_password(request, name[:80], form.get("password", "")[:256])
    except ApiError as problem:
        sentence = problem.body.message.capitalize() + "."
        return page("sign_in.html", status=problem.status, name=name[:80], problem=sentence)
    response = see_other("/")
    response.headers.add("Set-Cookie", session_cookie(request, token))
    return response


async def leave(request: web.Request) -> web.Response:
    signed_in = await identify(request)
    if signed_in is not None:
        check_csrf(signed_in, (await fields(request)).get("csrf", ""))
        await end_session(request)
    response = see_other("/sign-in")
    response.del_cookie(COOKIE, path="/")
    return response
