"""Signing in, sessions, CSRF, API keys, the first administrator."""

import re
from typing import Any

from services.frontend.bootstrap import bootstrap_demo, first_sign_in_link, set_first_password, setup_url
from shared.sealing import KeyRing
from shared.store import Database, sessions
from shared.store.bindings import token_record
from tests.support.frontend import MARKED_TOKEN, Client, Running

PASSWORD = "a password of eight"


async def signed_in(api: Running, name: str, password: str = PASSWORD) -> tuple[Client, dict[str, str]]:
    """A client without a key, and the headers of its sign-in."""
    client = api.client()
    async with api.http.post(
        f"{client.base}/api/auth/sign-in", json={"name": name, "password": password}
    ) as response:
        assert response.status == 200, await response.text()
        token = response.cookies["session"].value
        csrf = (await response.json())["csrf_token"]
        assert response.cookies["session"]["httponly"]
        assert response.cookies["session"]["samesite"] == "Lax"
    return client, {"Cookie": f"session={token}", "X-CSRF-Token": csrf}


async def make_ada(api: Running) -> Any:
    return await api.admin.post(
        "/api/users", {"name": "Ada", "password": PASSWORD, "features": ["agents"]}, status=201
    )


async def test_a_person_signs_in_and_out(api: Running) -> None:
    await make_ada(api)
    client, headers = await signed_in(api, "ada")
    status, me = await client.call("GET", "/api/auth/me", headers=headers)
    assert (status, me["user"]["name"], me["csrf_token"]) == (200, "Ada", headers["X-CSRF-Token"])
    assert (await client.call("POST", "/api/auth/sign-out", headers=headers))[0] == 204
    assert (await client.call("GET", "/api/auth/me", headers=headers))[0] == 401


async def test_what_is_stored_of_sessions_and_keys_opens_nothing(api: Running) -> None:
    await make_ada(api)
    client, headers = await signed_in(api, "Ada")
    _, made = await client.call("POST", "/api/auth/api-keys", {"name": "laptop"}, headers=headers)
    stored = str(await api.database.fetch("SELECT * FROM sessions")) + str(
        await api.database.fetch("SELECT * FROM api_keys")
    )
    assert made["key"] not in stored
    assert headers["Cookie"].partition("=")[2] not in stored


async def test_a_cookie_changes_nothing_without_the_csrf_token(api: Running) -> None:
    await make_ada(api)
    client, headers = await signed_in(api, "Ada")
    for wrong in ({}, {"X-CSRF-Token": "guess"}):
        status, answer = await client.call(
            "POST", "/api/agents", {"name": "a"}, headers={"Cookie": headers["Cookie"], **wrong}
        )
        assert (status, answer["error"]["code"]) == (403, "csrf")
    assert (await client.call("POST", "/api/agents", {"name": "a"}, headers=headers))[0] == 201


async def test_a_wrong_password_tells_nothing_and_is_throttled(api: Running) -> None:
    await make_ada(api)
    client = api.client()
    answers = [
        await client.call("POST", "/api/auth/sign-in", {"name": name, "password": "wrong password"})
        for name in ["Ada", "nobody"] * 5
    ]
    assert {status for status, _ in answers} == {401}
    assert len({str(answer) for _, answer in answers}) == 1
    status, answer = await client.call("POST", "/api/auth/sign-in", {"name": "Ada", "password": PASSWORD})
    assert (status, answer["error"]["type"]) == (429, "rate_limit_error")


async def test_a_key_is_shown_once_and_can_be_withdrawn(api: Running) -> None:
    await make_ada(api)
    client, headers = await signed_in(api, "Ada")
    _, made = await client.call("POST", "/api/auth/api-keys", {"name": "laptop"}, headers=headers)
    assert made["key"].startswith("tl_")
    with_key = api.client(made["key"])
    assert (await with_key.get("/api/auth/me"))["csrf_token"] == ""
    assert (await client.call("GET", "/api/auth/me", headers={"x-api-key": made["key"]}))[0] == 200
    listed = await with_key.get("/api/auth/api-keys")
    assert [key["name"] for key in listed["api_keys"]] == ["laptop"]
    assert made["key"] not in str(listed)
    error = await with_key.refused(403, "POST", "/api/auth/api-keys", {"name": "child"})
    assert error["type"] == "permission_error"
    await with_key.delete(f"/api/auth/api-keys/{made['api_key']['id']}")
    assert (await with_key.refused(401, "GET", "/api/auth/me"))["type"] == "authentication_error"


async def test_a_wrong_key_is_not_made_up_for_by_a_cookie(api: Running) -> None:
    await make_ada(api)
    client, headers = await signed_in(api, "Ada")
    status, _ = await client.call(
        "GET", "/api/auth/me", headers={**headers, "Authorization": "Bearer tl_wrong"}
    )
    assert status == 401


async def test_an_account_that_is_switched_off_is_out_at_once(api: Running) -> None:
    ada = await make_ada(api)
    client, headers = await signed_in(api, "Ada")
    await api.admin.post(f"/api/users/{ada['id']}/disable")
    assert (await client.call("GET", "/api/auth/me", headers=headers))[0] == 401
    await api.admin.post(f"/api/users/{ada['id']}/enable")
    assert (await client.call("GET", "/api/auth/me", headers=headers))[0] == 401, "the sign-in has ended"


async def test_the_first_link_makes_one_administrator(database: Database) -> None:
    first = await first_sign_in_link(database, "http://127.0.0.1:1/")
    second = await first_sign_in_link(database, "http://127.0.0.1:1/")
    assert first is not None
    assert second is not None
    tokens = [link.removeprefix(setup_url("http://127.0.0.1:1", "")) for link in (first, second)]
    assert await set_first_password(database, tokens[0], name="Root", password_hash="hash")
    assert await set_first_password(database, tokens[0], name="Again", password_hash="hash") is None
    assert await set_first_password(database, tokens[1], name="Other", password_hash="hash") is None
    assert await database.fetchval("SELECT count(*) FROM users") == 1
    assert await first_sign_in_link(database, "http://127.0.0.1:1/") is None


async def test_a_link_ends_after_a_day(database: Database) -> None:
    token = await sessions.add_link(database, None)
    await database.execute("UPDATE sign_in_links SET expires_at = now() - interval '1 second'")
    assert await set_first_password(database, token, name="Root", password_hash="hash") is None


async def test_the_demo_is_made_once_and_found_again(database: Database) -> None:
    ring = KeyRing.generate()
    first = await bootstrap_demo(database, ring, telegram_token=MARKED_TOKEN, model="sim-large")
    second = await bootstrap_demo(database, ring, telegram_token=MARKED_TOKEN, model="sim-large")
    assert (first.agent_id, first.binding_id) == (second.agent_id, second.binding_id)
    assert first.api_key != second.api_key
    assert await sessions.by_key(database, first.api_key) is None, "the older key is withdrawn"
    signed = await sessions.by_key(database, second.api_key)
    assert signed is not None
    assert (signed.user.role, signed.user.has_password) == ("admin", False)
    sealed = await database.fetchval("SELECT sealed FROM binding_secrets")
    assert ring.open(sealed, record=token_record(second.binding_id)) == MARKED_TOKEN
    assert await set_first_password(database, second.sign_in_token, name="", password_hash="hash")
    third = await bootstrap_demo(database, ring, telegram_token="999:other", model="sim-large")
    assert third.sign_in_token == ""
    assert await database.fetchval("SELECT account_epoch FROM bindings") == 2
    assert re.fullmatch(r"tl_[\w-]{43}", third.api_key)
