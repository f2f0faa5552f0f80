"""The pages: the first administrator, signing in and out, the overview."""

import re
from typing import Any

import pytest

from services.frontend.bootstrap import first_sign_in_link
from services.frontend.pages import STATIC
from shared.store import sessions
from tests.support.frontend import MARKED_TOKEN, Running

PASSWORD = "long enough"


class Browser:
    """Keeps a session cookie and follows no redirect by itself."""

    def __init__(self, api: Running) -> None:
        self._api = api
        self.cookie = ""

    async def open(self, path: str) -> tuple[int, str, Any]:
        return await self._ask("GET", path)

    async def send(self, path: str, form: dict[str, str], **headers: str) -> tuple[int, str, Any]:
        return await self._ask(
            "POST", path, data=form, headers={k.replace("_", "-"): v for k, v in headers.items()}
        )

    async def _ask(self, method: str, path: str, **more: Any) -> tuple[int, str, Any]:
        headers = more.pop("headers", {}) | ({"Cookie": self.cookie} if self.cookie else {})
        async with self._api.http.request(
            method, self._api.frontend.url + path, headers=headers, allow_redirects=False, **more
        ) as response:
            if "session" in response.cookies:
                self.cookie = f"session={response.cookies['session'].value}"
            return response.status, await response.text(), response.headers.copy()


@pytest.fixture
def browser(api: Running) -> Browser:
    return Browser(api)


async def link(api: Running) -> str:
    address = await first_sign_in_link(api.database, "http://x")
    assert address is not None
    return address.rpartition("=")[2]


async def test_the_first_administrator_sets_a_password_and_is_signed_in(
    api: Running, browser: Browser
) -> None:
    await api.database.execute("DELETE FROM users")
    token = await link(api)
    status, page, _ = await browser.open(f"/setup?token={token}")
    assert (status, f'value="{token}"' in page) == (200, True)
    for name, password in (("Root", "short"), (" ", PASSWORD), ("n" * 81, PASSWORD)):
        status, page, _ = await browser.send("/setup", {"token": token, "name": name, "password": password})
        assert (status, 'role="alert"' in page) == (400, True)
        assert password not in page
    status, _, headers = await browser.send("/setup", {"token": token, "name": "Root", "password": PASSWORD})
    assert (status, headers["Location"]) == (303, "/")
    status, page, _ = await browser.open("/")
    assert (status, "Root" in page, "Cluster" in page) == (200, True, True)
    assert (await browser.open(f"/setup?token={token}"))[0] == 410
    assert (await browser.send("/setup", {"token": token, "name": "Two", "password": PASSWORD}))[0] == 410


async def test_a_link_for_an_account_sets_the_password_of_that_account_only(
    api: Running, browser: Browser
) -> None:
    user = await api.database.fetchval("SELECT id FROM users WHERE name = 'root'")
    token = await sessions.add_link(api.database, user)
    assert "readonly" in (await browser.open(f"/setup?token={token}"))[1]
    status, _, _ = await browser.send("/setup", {"token": token, "name": "other", "password": PASSWORD})
    assert status == 303
    assert await api.database.fetchval("SELECT count(*) FROM users") == 1


async def test_a_person_signs_in_and_out_on_the_page(api: Running, browser: Browser) -> None:
    await api.admin.post("/api/users", {"name": "Ada <b>", "password": PASSWORD}, status=201)
    status, _, headers = await browser.open("/")
    assert (status, headers["Location"]) == (303, "/sign-in")
    status, page, _ = await browser.send("/sign-in", {"name": "Ada <b>", "password": "wrong one"})
    assert (status, "Name or password is wrong." in page) == (401, True)
    assert (await browser.send("/sign-in", {"name": "Ada <b>", "password": PASSWORD}))[0] == 303
    status, page, _ = await browser.open("/")
    assert "Ada &lt;b&gt;" in page
    assert "Cluster" not in page
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found is not None
    assert (await browser.send("/sign-out", {"csrf": "guess"}))[0] == 403
    assert (await browser.send("/sign-out", {"csrf": found[1]}))[0] == 303
    assert (await browser.open("/"))[0] == 303


async def test_a_form_of_another_site_is_refused(api: Running, browser: Browser) -> None:
    form = {"name": "root", "password": PASSWORD}
    assert (await browser.send("/sign-in", form, Sec_Fetch_Site="cross-site"))[0] == 403
    assert (await browser.send("/sign-in", form, Origin="https://elsewhere.example"))[0] == 403
    assert (await browser.send("/sign-in", form, Origin=api.frontend.url))[0] == 401


async def test_pages_hold_nothing_inline_and_say_so(api: Running, browser: Browser) -> None:
    token = await sessions.add_link(api.database, None)
    for path in ("/sign-in", f"/setup?token={token}", "/setup?token=none"):
        _, page, headers = await browser.open(path)
        assert "default-src 'self'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["Referrer-Policy"] == "no-referrer"
        assert not re.search(r"<script|<style|\sstyle=|\son\w+=", page)
        for place in re.findall(r'(?:href|src)="(/static/[^"]+)"', page):
            assert (STATIC / place.removeprefix("/static/")).is_file()
            assert (await browser.open(place))[0] == 200
        for field in re.findall(r'<input id="(\w+)"', page):
            assert f'<label for="{field}">' in page


async def test_the_overview_shows_what_needs_attention(api: Running, browser: Browser) -> None:
    agent = await api.admin.post("/api/agents", {"name": "helper", "model": "m"}, status=201)
    for name, enabled in (("Works", True), ("Rests", False)):
        given = {"kind": "telegram", "name": name, "token": MARKED_TOKEN, "agent_id": agent["id"]}
        await api.admin.post("/api/chats/connectors", given | {"enabled": enabled}, status=201)
    user = await api.database.fetchval("SELECT id FROM users WHERE name = 'root'")
    token = await sessions.add_link(api.database, user)
    await browser.send("/setup", {"token": token, "password": PASSWORD})
    page = (await browser.open("/"))[1]
    assert re.search(r"Works</strong>\s*<span class=\"chip good\">Running", page)
    assert re.search(r"Rests</strong>\s*<span class=\"chip still\">Off", page)
    assert MARKED_TOKEN not in page
