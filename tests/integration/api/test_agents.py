"""Agents, and what happens to bindings when theirs changes."""

from collections.abc import AsyncIterator

import pytest

from shared.store import Database
from tests.support.frontend import MARKED_TOKEN, Running, ScriptedOwner, running_frontend, settings_for
from tests.support.simulation import running

ROOT = "/api/chats/connectors"


@pytest.fixture
async def modelled(database_url: str, database: Database, owner: ScriptedOwner) -> AsyncIterator[Running]:
    async with running(validate=False) as sim:
        settings = settings_for(database_url, model=f"{sim.url}/v1")
        async with running_frontend(settings, owner.carrier(), database) as api:
            yield api


async def test_an_agent_is_made_changed_and_deleted(modelled: Running) -> None:
    admin = modelled.admin
    made = await admin.post("/api/agents", {"name": " My  agent ", "model": "sim-large"}, status=201)
    assert (made["name"], made["tools"], made["addons"], made["revision"]) == ("My agent", True, [], 1)
    changed = await admin.put(f"/api/agents/{made['id']}", {"description": "helps", "grants": ["a", "a"]})
    assert (changed["name"], changed["description"], changed["grants"]) == ("My agent", "helps", ["a"])
    error = await admin.refused(409, "PUT", f"/api/agents/{made['id']}", {"name": "x", "revision": 1})
    assert error["param"] == "revision"
    await admin.delete(f"/api/agents/{made['id']}")
    assert await admin.get("/api/agents") == {"agents": []}
    await admin.refused(404, "DELETE", f"/api/agents/{made['id']}")


async def test_names_are_unique_for_their_owner_without_case(modelled: Running) -> None:
    bob = await modelled.person("Bob", "agents")
    await modelled.admin.post("/api/agents", {"name": "Helper"}, status=201)
    other = await modelled.admin.post("/api/agents", {"name": "other"}, status=201)
    for method, path in (("POST", "/api/agents"), ("PUT", f"/api/agents/{other['id']}")):
        error = await modelled.admin.refused(409, method, path, {"name": "HELPER"})
        assert (error["param"], error["code"]) == ("name", "name_taken")
    await bob.post("/api/agents", {"name": "helper"}, status=201)


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "n" * 81}, "name"),
        ({"name": "a", "instructions": "ä" * 16385}, "instructions"),
        ({"name": "a", "tools": "yes"}, "tools"),
        ({"name": "a", "colour": "red"}, "colour"),
    ],
)
async def test_what_does_not_fit_is_named(modelled: Running, sent: object, param: str) -> None:
    error = await modelled.admin.refused(400, "POST", "/api/agents", sent)
    assert (error["type"], error["param"]) == ("invalid_request_error", param)


async def test_a_model_that_is_not_offered_is_refused_with_those_that_are(modelled: Running) -> None:
    assert await modelled.admin.get("/api/models") == {"models": ["sim-large", "sim-small"]}
    error = await modelled.admin.refused(400, "POST", "/api/agents", {"name": "a", "model": "gone"})
    assert (error["param"], error["code"]) == ("model", "model_missing")
    assert "sim-large, sim-small" in error["message"]


async def test_without_a_model_server_a_save_is_accepted_with_a_warning(api: Running) -> None:
    made = await api.admin.post("/api/agents", {"name": "a", "model": "any"}, status=201)
    assert "cannot be asked" in made["warning"]
    assert "warning" not in await api.admin.get(f"/api/agents/{made['id']}")
    assert (await api.admin.refused(503, "GET", "/api/models"))["code"] == "model_unreachable"


@pytest.mark.req("OFF-01")
@pytest.mark.req("OFF-05")
@pytest.mark.req("OFF-06")
@pytest.mark.parametrize("cleared", [True, False], ids=["model cleared", "agent deleted"])
async def test_a_binding_is_switched_off_with_its_agent(modelled: Running, cleared: bool) -> None:
    admin = modelled.admin
    agent = await admin.post("/api/agents", {"name": "a", "model": "sim-large"}, status=201)
    binding = await admin.post(
        ROOT,
        {
            "kind": "telegram",
            "name": "Bot",
            "token": MARKED_TOKEN,
            "agent_id": agent["id"],
            "enabled": True,
        },
        status=201,
    )
    if cleared:
        await admin.put(f"/api/agents/{agent['id']}", {"model": ""})
    else:
        await admin.delete(f"/api/agents/{agent['id']}")
    off = await admin.get(f"{ROOT}/{binding['id']}")
    assert (off["enabled"], off["active"]) == (False, False)
    inbox = await admin.get("/api/notifications")
    [notice] = inbox["notifications"]
    assert (notice["title"], notice["binding_id"], inbox["unread"]) == (
        "Bot was switched off",
        binding["id"],
        1,
    )
    assert notice["body"] == off["reason"]
    await admin.refused(400, "POST", f"{ROOT}/{binding['id']}/enable")
    await admin.post(f"/api/notifications/{notice['id']}/read")
    assert (await admin.get("/api/notifications"))["unread"] == 0


async def test_notifications_of_others_do_not_exist(modelled: Running) -> None:
    bob = await modelled.person("Bob", "chats")
    await modelled.database.execute(
        "INSERT INTO notifications (user_id, sort, title, body) SELECT id, 'x', 't', 'b' FROM users WHERE name = 'root'"
    )
    assert await bob.get("/api/notifications") == {"notifications": [], "unread": 0}
    number = (await modelled.admin.get("/api/notifications"))["notifications"][0]["id"]
    for wrong in (number, 0, "x", "9" * 30):
        await bob.refused(404, "POST", f"/api/notifications/{wrong}/read")
