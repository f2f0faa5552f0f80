import re

import pytest

from services.simulators.demo import STATIC
from tests.support.simulation import TOKEN, Sim, running


@pytest.mark.parametrize("path", ["/", "/demo"])
async def test_the_page_allows_only_its_own_files(lean: Sim, path: str) -> None:
    async with lean.http.get(f"{lean.url}{path}") as response:
        assert response.headers["Content-Security-Policy"].startswith("default-src 'self'")
        page = await response.text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style| style=| on\w+=", page)
    for name in re.findall(r"/demo/static/([\w.]+)", page):
        async with lean.http.get(f"{lean.url}/demo/static/{name}") as response:
            assert response.status == 200


async def test_other_files_are_not_served(lean: Sim) -> None:
    async with lean.http.get(f"{lean.url}/demo/static/demo.html") as response:
        assert response.status == 404


async def test_the_page_is_told_the_bot_but_never_its_token() -> None:
    async with running(validate=False, demo_bot=TOKEN) as sim:
        assert await sim.get("demo") == {"bot": {"id": "111", "name": "Sim 111", "username": "sim111_bot"}}


async def test_without_a_bot_the_page_is_told_so(lean: Sim) -> None:
    assert await lean.get("demo") == {"bot": None}


def test_no_data_reaches_the_page_as_markup() -> None:
    for script in STATIC.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", script.read_text())
