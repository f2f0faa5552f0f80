"""What holds for every route: bodies, errors, headers, the description, and who may call."""

import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from services.frontend.api.table import ROUTES
from shared.observe.metrics import HTTP_REQUESTS
from shared.store import Database
from tests.support.frontend import Running, ScriptedOwner, running_frontend, settings_for
from tests.support.proxy import Relay


async def test_every_route_is_closed_without_a_sign_in(api: Running) -> None:
    nobody = api.client()
    for route in ROUTES:
        path = re.sub(r"\{\w+\}", "x", route.path)
        body: Any = None if route.body is None else {}
        status, answer = await nobody.call(route.method, path, body)
        if route.authority != "anyone":
            assert (status, answer["error"]["type"]) == (401, "authentication_error"), route.path


async def test_every_administrators_route_is_closed_to_others(api: Running) -> None:
    bob = await api.person("Bob", "chats", "agents", "connectors", "addons")
    for route in ROUTES:
        if route.authority == "admin":
            path = re.sub(r"\{\w+\}", "x", route.path)
            body: Any = None if route.body is None else {}
            assert (await bob.refused(403, route.method, path, body))["type"] == "permission_error"


async def test_features_that_are_off_refuse_their_routes(api: Running) -> None:
    bob = await api.person("Bob")
    for path, feature in [
        ("/api/chats", "chats"),
        ("/api/agents", "agents"),
        ("/api/chats/connectors", "connectors"),
        ("/api/addons", "addons"),
    ]:
        error = await bob.refused(403, "GET", path)
        assert (error["param"], error["code"]) == (feature, "feature_off")


@pytest.mark.parametrize(
    ("raw", "status", "kind"),
    [
        (b"{", 400, "invalid_request_error"),
        (b"[]", 400, "invalid_request_error"),
        (b'"text"', 400, "invalid_request_error"),
        (b'{"name": "a\\u0000b"}', 400, "invalid_request_error"),
        (b'{"name": "\\ud800"}', 400, "invalid_request_error"),
        (b'{"name": "\xff"}', 400, "invalid_request_error"),
        (b"[" * 100_000, 400, "invalid_request_error"),
        (b'{"name": "' + b"n" * (1024 * 1024) + b'"}', 413, "too_large"),
    ],
    ids=["broken", "list", "text", "null", "surrogate", "not utf-8", "deep", "large"],
)
async def test_a_body_that_cannot_be_used_is_an_answer_and_no_accident(
    api: Running, raw: bytes, status: int, kind: str
) -> None:
    assert (await api.admin.refused(status, "POST", "/api/agents", raw))["type"] == kind


async def test_only_json_is_read(api: Running) -> None:
    for sort in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x"):
        status, answer = await api.admin.call("POST", "/api/agents", b"{}", headers={"Content-Type": sort})
        assert (status, answer["error"]["type"]) == (415, "unsupported_media_type")


async def test_addresses_that_are_not_there(api: Running) -> None:
    assert (await api.admin.refused(404, "GET", "/api/nothing"))["type"] == "not_found_error"
    assert (await api.admin.refused(405, "PUT", "/api/agents"))["type"] == "method_not_allowed"
    assert (await api.admin.refused(404, "GET", "/api/agents/%00"))["type"] == "not_found_error"
    assert (await api.admin.refused(404, "GET", "/api/agents/" + "x" * 300))["type"] == "not_found_error"
    await api.admin.refused(400, "GET", "/api/chats?before=%00")
    for broken in ("%ff", "%ed%a0%80"):
        await api.admin.refused(404, "GET", f"/api/agents/{broken}")
        assert (await api.admin.call("GET", f"/api/chats?before={broken}"))[0] in {200, 400}
    await api.admin.refused(400, "GET", "/api/notifications?before=" + "9" * 30)


async def test_answers_are_kept_by_no_cache_and_shared_with_no_other_site(api: Running) -> None:
    headers = {"Authorization": f"Bearer {api.admin.key}", "Origin": "https://elsewhere.example"}
    async with api.http.get(f"{api.frontend.url}/api/agents", headers=headers) as response:
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert not [name for name in response.headers if name.lower().startswith("access-control")]


async def test_keys_that_are_no_text_are_wrong_keys(api: Running) -> None:
    for wrong in ("tl_\udcff", "", "Basic x", "tl_" + "x" * 5000):
        status, _ = await api.client().call("GET", "/api/agents", headers={"x-api-key": wrong})
        assert status == 401


async def test_the_description_is_served_without_a_sign_in(api: Running) -> None:
    async with api.http.get(f"{api.frontend.url}/openapi.json") as response:
        document = await response.json()
    assert document["openapi"] == "3.1.0"
    assert {route.path for route in ROUTES} == set(document["paths"])


async def test_requests_are_counted_by_route_and_not_by_address(api: Running) -> None:
    counted = HTTP_REQUESTS.labels(route="/api/agents/{id}", status="4xx")
    before = counted._value.get()
    for name in ("one", "two"):
        await api.admin.refused(404, "GET", f"/api/agents/{name}")
    assert counted._value.get() == before + 2


async def test_without_a_database_requests_say_so(database_url: str, database: Database) -> None:
    place = urlsplit(database_url)
    assert place.port is not None
    relay = Relay(place.port)
    await relay.start()
    through = database_url.replace(f":{place.port}/", f":{relay.port}/")
    async with running_frontend(settings_for(through), ScriptedOwner().carrier(), database) as api:
        await api.admin.get("/api/agents")
        relay.refusing = True
        relay.cut()
        assert (await api.admin.refused(503, "GET", "/api/agents"))["type"] == "store_unavailable"
        async with api.http.get(f"{api.frontend.url}/", headers={"Cookie": "session=x"}) as response:
            assert (response.status, response.content_type) == (503, "text/html")
            assert "database" in await response.text()
        relay.refusing = False
        assert await api.admin.get("/api/agents") == {"agents": []}
    await relay.stop()
