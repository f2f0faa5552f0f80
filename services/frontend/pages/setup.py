"""`/setup`: a one-time link becomes an administrator who can sign in."""

from aiohttp import web

from services.frontend.api.passwords import LONGEST, PASSWORDS, SHORTEST
from services.frontend.api.services import SERVICES
from services.frontend.api.sign_in import session_cookie
from services.frontend.api.views import clean
from services.frontend.bootstrap import set_first_password
from services.frontend.pages.forms import fields
from services.frontend.pages.render import page, see_other
from shared.store import sessions
from shared.store.people import NameTaken
from shared.store.sessions import Link


async def show(request: web.Request) -> web.Response:
    token = request.query.get("token", "")
    link = await sessions.read_link(request.app[SERVICES].database, token)
    return _expired() if link is None else _form(link, token)


async def submit(request: web.Request) -> web.Response:
    services = request.app[SERVICES]
    form = await fields(request)
    token, password = form.get("token", ""), form.get("password", "")
    link = await sessions.read_link(services.database, token)
    if link is None:
        return _expired()
    name = link.user_name or clean(form.get("name", ""))
    problem = _problem(name, password)
    if problem:
        return _form(link, token, name=name, problem=problem)
    hashed = await request.app[PASSWORDS].hash(password)
    try:
        user_id = await set_first_password(services.database, token, name=name, password_hash=hashed)
    except NameTaken:
        return _form(link, token, name=name, problem="This name is taken.")
    if user_id is None:
        return _expired()
    hours = services.settings.http.session_hours
    session, _ = await sessions.begin(services.database, user_id, hours=hours)
    response = see_other("/")
    response.headers.add("Set-Cookie", session_cookie(request, session))
    return response


def _problem(name: str, password: str) -> str:
    if not 1 <= len(name) <= 80:
        return "Choose a name of 1 to 80 characters."
    if not SHORTEST <= len(password) <= LONGEST:
        return f"Choose a password of {SHORTEST} to {LONGEST} characters."
    return ""


def _form(link: Link, token: str, *, name: str = "", problem: str = "") -> web.Response:
    return page(
        "setup.html",
        status=400 if problem else 200,
        fixed_name=link.user_name,
        token=token,
        name=name,
        problem=problem,
        shortest=SHORTEST,
        longest=LONGEST,
    )


def _expired() -> web.Response:
    return page("setup_expired.html", status=410)
