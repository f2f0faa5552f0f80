"""The API over a real owner with the Telegram add-on and a stand-in of Telegram."""

import json
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import services.addons
from services.owner.gallery import digest_of
from shared.store import Database
from shared.store.bindings import token_record
from tests.support.frontend import Client, Running, running_frontend, settings_for, with_owner
from tests.support.simulation import TOKEN, Sim, running

ROOT = "/api/chats/connectors"
EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "dice"


@dataclass
class Stage:
    api: Running
    sim: Sim

    @property
    def admin(self) -> Client:
        return self.api.admin

    async def asked(self, method: str) -> int:
        """How often the platform was asked this, by anybody."""
        calls = (await self.sim.get("telegram/calls", since=0))["calls"]
        return sum(call["method"].lower() == method.lower() for call in calls)


@pytest.fixture
async def stage(database_url: str, database: Database, tmp_path: Path) -> AsyncIterator[Stage]:
    """An owner on which nothing is installed yet."""
    async with running(validate=False) as sim:
        hosts = json.dumps({"telegram_api": sim.url})
        settings = settings_for(database_url, model=f"{sim.url}/v1", development_hosts=hosts)
        async with (
            with_owner(settings, tmp_path / "root") as (_, carrier),
            running_frontend(settings, carrier, database) as api,
        ):
            yield Stage(api, sim)


async def install(stage: Stage) -> Any:
    [telegram] = [a for a in (await stage.admin.get("/api/addons"))["addons"] if a["id"] == "telegram"]
    chosen = {name: telegram[name] for name in ("source", "id", "digest")}
    return await stage.admin.post("/api/addons", chosen, status=201)


async def body(stage: Stage, token: str = TOKEN, **more: Any) -> dict[str, Any]:
    agent = await stage.admin.post("/api/agents", {"name": "helper", "model": "sim-large"}, status=201)
    return {"kind": "telegram", "name": "Bot", "token": token, "agent_id": agent["id"], **more}


@pytest.mark.req("TG-06")
@pytest.mark.req("BIND-04")
@pytest.mark.req("CLU-20")
async def test_a_kind_is_there_while_its_add_on_runs(stage: Stage) -> None:
    assert (await stage.admin.get(f"{ROOT}/kinds"))["kinds"] == []
    assert (await install(stage))["state"] == "running"
    [kind] = (await stage.admin.get(f"{ROOT}/kinds"))["kinds"]
    assert (kind["id"], kind["setup"]) == ("telegram", "a bot token from @BotFather")
    await stage.admin.post("/api/addons/telegram/disable")
    assert (await stage.admin.get(f"{ROOT}/kinds"))["kinds"] == []
    await stage.admin.post("/api/addons/telegram/enable")
    assert len((await stage.admin.get(f"{ROOT}/kinds"))["kinds"]) == 1
    await stage.admin.delete("/api/addons/telegram")
    assert (await stage.admin.get(f"{ROOT}/kinds"))["kinds"] == []
    await stage.admin.refused(404, "POST", "/api/addons/telegram/enable")


async def test_another_digest_than_the_one_that_was_seen_is_not_installed(stage: Stage) -> None:
    error = await stage.admin.refused(
        400, "POST", "/api/addons", {"source": "bundled", "id": "telegram", "digest": "sha256:0"}
    )
    assert "digest" in error["message"]


async def test_an_add_on_of_a_local_folder_is_installed_by_its_digest_and_runs(
    stage: Stage, tmp_path: Path
) -> None:
    folder = tmp_path / "dice"
    shutil.copytree(EXAMPLE, folder)
    chosen = {"source": str(folder), "id": "dice", "digest": digest_of(folder)}
    made = await stage.admin.post("/api/addons", chosen, status=201)
    assert (made["state"], made["source"], made["tools"]) == ("running", str(folder), ["dice_roll"])
    # What runs is a copy: a change of the folder is another digest, and changes nothing that runs.
    (folder / "dice.py").write_text("raise SystemExit(1)")
    await stage.admin.refused(400, "POST", "/api/addons", chosen)
    await stage.admin.post("/api/addons/dice/disable")
    assert (await stage.admin.post("/api/addons/dice/enable"))["state"] == "running"
    assert (await stage.admin.delete("/api/addons/dice")) == ""


@pytest.mark.req("CLU-01")
@pytest.mark.parametrize("delivery", ["carrier pigeon", "", None])
async def test_an_add_on_that_states_no_known_delivery_is_not_installed(
    stage: Stage, tmp_path: Path, delivery: str | None
) -> None:
    folder = tmp_path / "telegram"
    shutil.copytree(Path(services.addons.__path__[0]) / "telegram", folder)
    manifest = json.loads((folder / "manifest.json").read_bytes())
    (kind,) = manifest["capabilities"]["connector"]["kinds"]
    kind["delivery"] = delivery
    if delivery is None:
        del kind["delivery"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    chosen = {"source": str(folder), "id": "telegram", "digest": digest_of(folder)}
    error = await stage.admin.refused(400, "POST", "/api/addons", chosen)
    assert "delivery" in error["message"]
    assert (await stage.admin.get(f"{ROOT}/kinds"))["kinds"] == []


@pytest.mark.req("TG-01")
@pytest.mark.req("TG-10")
@pytest.mark.req("TG-13")
async def test_saving_and_testing_ask_whose_bot_it_is(stage: Stage) -> None:
    await install(stage)
    given = await body(stage)
    made = await stage.admin.post(ROOT, given, status=201)
    assert await stage.asked("getMe") == 1
    assert made["account"]["id"] == TOKEN.partition(":")[0]
    assert made["agent_id"] == given["agent_id"]
    for count in (2, 3):
        result = await stage.admin.post(f"{ROOT}/{made['id']}/test")
        assert result["ok"] is True
        assert await stage.asked("getMe") == count


@pytest.mark.req("TG-11")
@pytest.mark.req("CLU-26")
async def test_a_token_that_telegram_refuses_is_not_stored(stage: Stage) -> None:
    await install(stage)
    await stage.sim.post(
        "telegram/faults",
        {
            "method": "getMe",
            "status": 401,
            "body": {"ok": False, "error_code": 401, "description": "Unauthorized"},
        },
    )
    error = await stage.admin.refused(400, "POST", ROOT, await body(stage))
    assert (error["param"], error["code"]) == ("token", "credentials")
    assert (await stage.admin.get(ROOT))["connectors"] == []


@pytest.mark.req("CLU-27")
async def test_an_outage_of_telegram_does_not_stop_a_save(stage: Stage) -> None:
    await install(stage)
    await stage.sim.post("telegram/faults", {"method": "getMe", "status": 502, "body": "bad gateway"})
    made = await stage.admin.post(ROOT, await body(stage), status=201)
    assert "account" not in made
    result = await stage.admin.post(f"{ROOT}/{made['id']}/test")
    assert result["account"]["id"] == TOKEN.partition(":")[0]


@pytest.mark.case("TG-22")
async def test_a_webhook_is_named_by_its_host_and_taken_over_only_when_asked(stage: Stage) -> None:
    await install(stage)
    webhook = "https://hooks.example.org/secret-path"
    await stage.sim.result("setWebhook", url=webhook)
    given = await body(stage, enabled=True)
    for sent in (given, given | {"take_over_webhook": False}):
        error = await stage.admin.refused(400, "POST", ROOT, sent)
        assert (error["code"], error["param"]) == ("webhook_set", "take_over_webhook")
        assert "hooks.example.org" in error["message"]
        assert "secret-path" not in error["message"]
        assert (await stage.sim.result("getWebhookInfo"))["url"] == webhook
        assert (await stage.admin.get(ROOT))["connectors"] == []
    made = await stage.admin.post(ROOT, given | {"take_over_webhook": True}, status=201)
    assert (await stage.sim.result("getWebhookInfo"))["url"] == ""
    # Another program sets it again: a test names it, and it stays.
    await stage.sim.result("setWebhook", url=webhook)
    tested = await stage.admin.post(f"{ROOT}/{made['id']}/test")
    assert tested["ok"] is False
    assert "hooks.example.org" in tested["reason"]
    assert "secret-path" not in tested["reason"]
    assert (await stage.sim.result("getWebhookInfo"))["url"] == webhook
    assert await stage.asked("deleteWebhook") == 1
    # The stored token is enough to take it over then, as the reason of the switched off connection says.
    place = f"{ROOT}/{made['id']}"
    await stage.sim.post("telegram/faults", {"method": "getMe", "drop": "before"})
    error = await stage.admin.refused(503, "PUT", place, {"take_over_webhook": True, "name": "kept out"})
    assert error["type"] == "platform_unavailable"
    assert (await stage.admin.get(place))["name"] == "Bot"
    saved = await stage.admin.put(place, {"take_over_webhook": True})
    assert (saved["account"], saved["revision"]) == (made["account"], made["revision"] + 1)
    assert (await stage.sim.result("getWebhookInfo"))["url"] == ""
    cleared = await stage.admin.put(place, {"token": ""})
    assert cleared["has_token"] is False
    error = await stage.admin.refused(400, "PUT", place, {"take_over_webhook": True})
    assert error["param"] == "take_over_webhook"


@pytest.mark.req("TOK-01")
@pytest.mark.req("TOK-02")
@pytest.mark.req("TOK-04")
async def test_a_changed_or_copied_token_does_not_open(stage: Stage) -> None:
    await install(stage)
    given = await body(stage)
    first = await stage.admin.post(ROOT, given, status=201)
    second = await stage.admin.post(ROOT, given | {"token": "222:other", "name": "Other"}, status=201)
    assert (await stage.admin.post(f"{ROOT}/{second['id']}/test"))["account"]["id"] == "222"
    database = stage.api.database
    assert TOKEN not in str(await database.fetch("SELECT * FROM binding_secrets"))
    await database.execute(
        "UPDATE binding_secrets SET sealed = (SELECT sealed FROM binding_secrets WHERE binding_id = $1)",
        first["id"],
    )
    copied = await stage.admin.post(f"{ROOT}/{second['id']}/test")
    assert (copied["ok"], copied["code"]) == (False, "platform_refused")
    assert "save the token again" in copied["reason"]
    sealed = await database.fetchval("SELECT sealed FROM binding_secrets LIMIT 1")
    changed = sealed[:-3] + ("A" if sealed[-3] != "A" else "B") + sealed[-2:]
    await database.execute("UPDATE binding_secrets SET sealed = $1", changed)
    assert (await stage.admin.post(f"{ROOT}/{first['id']}/test"))["ok"] is False
    mended = await stage.admin.put(f"{ROOT}/{first['id']}", {"token": TOKEN})
    assert (await stage.admin.post(f"{ROOT}/{mended['id']}/test"))["ok"] is True
    assert token_record(first["id"]) != token_record(second["id"])


@pytest.mark.req("BIND-19")
async def test_a_test_with_the_platform_up_down_and_refusing(stage: Stage) -> None:
    await install(stage)
    place = f"{ROOT}/{(await stage.admin.post(ROOT, await body(stage), status=201))['id']}/test"
    assert (await stage.admin.post(place))["ok"] is True
    await stage.sim.post("telegram/faults", {"method": "getMe", "drop": "before"})
    assert (await stage.admin.post(place))["code"] == "platform_unavailable"
    unauthorized = {"ok": False, "error_code": 401, "description": "Unauthorized"}
    await stage.sim.post("telegram/faults", {"method": "getMe", "status": 401, "body": unauthorized})
    refused = await stage.admin.post(place)
    assert refused["ok"] is False
    assert refused["reason"].startswith("Telegram does not accept the token: ask @BotFather")
    assert (await stage.admin.post(place))["ok"] is True


@pytest.mark.req("CLU-32")
@pytest.mark.req("BIND-07")
@pytest.mark.req("BIND-08")
@pytest.mark.req("BIND-11")
async def test_a_binding_from_before_add_ons_works_as_soon_as_its_add_on_is_installed(stage: Stage) -> None:
    await install(stage)
    open_to_all: dict[str, Any] = {"accept_any": True, "confirm_accept_any": "accept any message"}
    made = await stage.admin.post(ROOT, await body(stage, **open_to_all), status=201)
    await stage.admin.delete("/api/addons/telegram")
    database = stage.api.database
    await database.execute("UPDATE bindings SET addon = '', enabled = true, revision = revision + 1")
    await database.execute("UPDATE binding_cursor SET position = '1'")
    await stage.admin.get(f"{ROOT}/kinds")
    kept = await stage.admin.get(f"{ROOT}/{made['id']}")
    assert (kept["enabled"], kept["active"]) == (True, False)
    assert kept["reason"] == "install the Telegram add-on"
    await stage.sim.says("from long ago")
    assert await stage.asked("getUpdates") == 0
    await install(stage)
    page = await stage.sim.get(
        "telegram/messages", chat=5001, bot=TOKEN, wait_text="You said: from long ago", timeout=15
    )
    assert page["found"], page
    assert (await stage.admin.get(f"{ROOT}/{made['id']}"))["active"] is True
    assert await database.fetchval("SELECT addon FROM bindings") == "", "nobody edited it"


@pytest.mark.req("BIND-01")
@pytest.mark.req("BIND-18")
async def test_everything_of_a_binding_is_readable_while_its_add_on_is_stopped(stage: Stage) -> None:
    await install(stage)
    open_to_all: dict[str, Any] = {"accept_any": True, "confirm_accept_any": "accept any message"}
    made = await stage.admin.post(ROOT, await body(stage, enabled=True, **open_to_all), status=201)
    assert made["active"] is True
    await stage.sim.says("before the stop")
    page = await stage.sim.get(
        "telegram/messages", chat=5001, bot=TOKEN, wait_text="You said: before the stop", timeout=15
    )
    assert page["found"], page
    await stage.admin.post("/api/addons/telegram/disable")
    await stage.admin.get(f"{ROOT}/kinds")
    stopped = await stage.admin.get(f"{ROOT}/{made['id']}")
    assert (stopped["enabled"], stopped["active"]) == (True, False)
    assert stopped["reason"] == "switch the Telegram add-on on"
    (sender,) = (await stage.admin.get(f"{ROOT}/{made['id']}/senders"))["senders"]
    assert (sender["id"], sender["count"]) == ("5001", 1)
    (chat,) = (await stage.admin.get("/api/chats"))["chats"]
    messages = (await stage.admin.get(f"/api/chats/{chat['id']}"))["messages"]
    assert [m["content"] for m in messages] == ["before the stop", "You said: before the stop"]


async def test_a_refused_replacement_leaves_the_old_token_at_work(stage: Stage) -> None:
    await install(stage)
    made = await stage.admin.post(ROOT, await body(stage), status=201)
    unauthorized = {"ok": False, "error_code": 401, "description": "Unauthorized"}
    await stage.sim.post("telegram/faults", {"method": "getMe", "status": 401, "body": unauthorized})
    await stage.admin.refused(400, "PUT", f"{ROOT}/{made['id']}", {"name": "new", "token": "999:bad"})
    assert await stage.admin.get(f"{ROOT}/{made['id']}") == made
    assert (await stage.admin.post(f"{ROOT}/{made['id']}/test"))["account"]["id"] == TOKEN.partition(":")[0]


async def test_the_cluster_shows_its_members(stage: Stage) -> None:
    await install(stage)
    view = await stage.admin.get("/api/cluster")
    [frontend] = view["frontends"]
    assert (frontend["id"], frontend["alive"], frontend["shards"]) == (stage.api.frontend.id, True, [0])
    assert frontend["url"] == stage.api.frontend.url
    assert view["answered_by"] == frontend["id"]
    assert (view["owner"]["state"], view["owner"]["term"]) == ("ready", 1)
    assert [a["state"] for a in view["owner"]["addons"] if a["id"] == "telegram"] == ["running"]
    assert view["bus"] == {"connected": True, "dropped": view["bus"]["dropped"]}
    assert view["database"]["pool_size"] == 6
