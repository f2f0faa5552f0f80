"""Bindings over the API, with an owner whose answers the test sets."""

import asyncio
import re
from typing import Any

import pytest

from services.frontend.api.table import ROUTES
from shared.domain.errors import (
    AddonNotRunning,
    Deadline,
    Denied,
    Failure,
    OwnerFenced,
    OwnerUnreachable,
    OwnerUnready,
    PlatformLimited,
    PlatformRefused,
    PlatformUnavailable,
)
from shared.sdk.ops import Me
from shared.store.bindings import token_record
from tests.support.frontend import MARKED_TOKEN, Client, Running, ScriptedOwner

ROOT = "/api/chats/connectors"
OWNER_FAILURES = [OwnerUnreachable("away"), OwnerUnready("starting"), OwnerFenced("replaced")]
TRY_LATER = [
    PlatformUnavailable("no answer"),
    PlatformLimited("slow down", seconds=3),
    Deadline("too slow"),
    AddonNotRunning("it died"),
]


@pytest.fixture
async def ada(api: Running) -> Client:
    """A user with connectors and agents, and without add-ons."""
    return await api.person("Ada", "connectors", "agents", "chats")


@pytest.fixture
async def agent(ada: Client) -> str:
    return str((await ada.post("/api/agents", {"name": "helper", "model": "sim-large"}, status=201))["id"])


def body(agent: str, **more: Any) -> dict[str, Any]:
    return {"kind": "telegram", "name": "Support bot", "token": MARKED_TOKEN, "agent_id": agent, **more}


async def names(client: Client) -> list[str]:
    return [each["name"] for each in (await client.get(ROOT))["connectors"]]


@pytest.mark.req("BIND-12")
@pytest.mark.req("BIND-13")
async def test_what_is_written_is_read_back(ada: Client, agent: str) -> None:
    given = body(
        agent,
        enabled=True,
        allow=["12345678", "@Ada", "-100200"],
        reply_mode="stream",
        conversation="chat",
        send_files=False,
    )
    made = await ada.post(ROOT, given, status=201)
    read = await ada.get(f"{ROOT}/{made['id']}")
    del given["token"]
    assert {name: read[name] for name in given} == given
    assert read == made
    assert read["has_token"] is True


@pytest.mark.req("ANS-09")
@pytest.mark.req("BIND-06")
async def test_a_fresh_binding_admits_nobody_and_knows_its_add_on(ada: Client, agent: str) -> None:
    made = await ada.post(ROOT, body(agent), status=201)
    assert (made["reply_mode"], made["conversation"], made["window_minutes"]) == ("progress", "sender", 60)
    assert (made["allow"], made["accept_any"], made["enabled"]) == ([], False, False)
    assert made["addon"] == "telegram"
    assert made["account"] == {"id": "12345678", "name": "Support Bot"}
    assert (await ada.get(ROOT)) == {"connectors": [made], "shared": [], "sharing": False}


@pytest.mark.req("ANS-10")
@pytest.mark.parametrize("mode", ["progress", "stream", "off"])
async def test_there_are_three_ways_to_reply_and_another_is_a_400(ada: Client, agent: str, mode: str) -> None:
    made = await ada.post(ROOT, body(agent, reply_mode=mode), status=201)
    place = f"{ROOT}/{made['id']}"
    for other in ("loud", "", "PROGRESS", None, 1):
        for method, path, sent in (
            ("POST", ROOT, body(agent, reply_mode=other)),
            ("PUT", place, {"reply_mode": other}),
        ):
            assert (await ada.refused(400, method, path, sent))["param"] == "reply_mode"
    assert (await ada.get(place))["reply_mode"] == mode
    assert (await ada.put(place, {"name": "renamed"}))["reply_mode"] == mode


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("reply_mode", "loud"),
        ("conversation", "nobody"),
        ("window_minutes", 0),
        ("window_minutes", 10_081),
        ("reply_language", "tlh"),
        ("allow", [" "]),
        ("allow", ["a" * 129]),
        ("allow", [str(n) for n in range(501)]),
        ("allow", ["two\nlines"]),
        ("name", " "),
        ("name", "n" * 81),
        ("surprise", 1),
        ("token", "123:has a space"),
    ],
)
async def test_what_does_not_fit_is_a_400_that_names_the_field(
    ada: Client, agent: str, field: str, value: Any
) -> None:
    error = await ada.refused(400, "POST", ROOT, body(agent, **{field: value}))
    assert error["type"] == "invalid_request_error"
    assert error["param"].startswith(field)
    assert await names(ada) == []


@pytest.mark.req("ALLOW-11")
@pytest.mark.req("ALLOW-12")
@pytest.mark.req("ALLOW-14")
@pytest.mark.req("ALLOW-15")
async def test_accepting_anyone_has_to_be_confirmed_in_words(ada: Client, agent: str) -> None:
    words = {"confirm_accept_any": "accept any message"}
    for wrong in ({}, {"confirm_accept_any": "yes"}):
        error = await ada.refused(400, "POST", ROOT, body(agent, accept_any=True, **wrong))
        assert error["param"] == "confirm_accept_any"
    made = await ada.post(ROOT, body(agent), status=201)
    place = f"{ROOT}/{made['id']}"
    await ada.refused(400, "PUT", place, {"accept_any": True, "name": "changed"})
    read = await ada.get(place)
    assert (read["accept_any"], read["name"]) == (False, "Support bot")
    assert (await ada.put(place, {"accept_any": True, **words}))["accept_any"] is True
    assert (await ada.put(place, {"name": "later"}))["accept_any"] is True
    assert (await ada.put(place, {"accept_any": True}))["accept_any"] is True, "it was on already"
    assert (await ada.put(place, {"accept_any": False}))["accept_any"] is False


@pytest.mark.req("CLU-17")
@pytest.mark.req("CLU-18")
async def test_connections_need_their_own_feature_and_not_add_ons(api: Running, ada: Client) -> None:
    bob = await api.person("Bob", "addons", "chats")
    routes = [(route.method, route.path) for route in ROUTES if route.path.startswith(ROOT)]
    assert len(routes) >= 11
    for method, path in routes:
        error = await bob.refused(403, method, re.sub(r"\{\w+\}", "x", path))
        assert (error["type"], error["param"]) == ("permission_error", "connectors")
    await ada.get(ROOT)
    await ada.get(f"{ROOT}/kinds")
    await ada.refused(403, "GET", "/api/addons")


async def test_what_belongs_to_others_does_not_exist(api: Running, ada: Client, agent: str) -> None:
    made = await ada.post(ROOT, body(agent), status=201)
    bob = await api.person("Bob", "connectors", "agents", "chats")
    place = f"{ROOT}/{made['id']}"
    for method, path, sent in [
        ("GET", place, None),
        ("PUT", place, {"name": "mine"}),
        ("DELETE", place, None),
        ("POST", f"{place}/enable", None),
        ("POST", f"{place}/disable", None),
        ("POST", f"{place}/test", None),
        ("GET", f"{place}/senders", None),
        ("POST", f"{place}/senders/5/allow", None),
        ("GET", f"/api/agents/{agent}", None),
    ]:
        assert (await bob.refused(404, method, path, sent))["type"] == "not_found_error"
    error = await bob.refused(400, "POST", ROOT, body(agent))
    assert error["param"] == "agent_id"


@pytest.mark.req("BIND-17")
async def test_fifty_bindings_and_not_one_more_even_at_once(api: Running, ada: Client, agent: str) -> None:
    await api.database.execute(
        "INSERT INTO bindings (id, user_id, kind, name) "
        "SELECT 'bnd_' || n, u.id, 'telegram', 'b' FROM users u, generate_series(1, 48) n WHERE u.name = 'Ada'"
    )
    answers = await asyncio.gather(
        *(ada.call("POST", ROOT, body(agent, name=f"racer {n}")) for n in range(6))
    )
    assert sorted(status for status, _ in answers) == [201, 201, 409, 409, 409, 409]
    assert len(await names(ada)) == 50


@pytest.mark.req("TG-08")
async def test_an_agent_without_a_model_cannot_be_bound(ada: Client, owner: ScriptedOwner) -> None:
    bare = await ada.post("/api/agents", {"name": "bare"}, status=201)
    for agent_id in (bare["id"], "agt_unknown", ""):
        assert (await ada.refused(400, "POST", ROOT, body(agent_id)))["param"] == "agent_id"
    assert await names(ada) == []
    assert owner.named("verify") == []


@pytest.mark.req("CLU-25")
@pytest.mark.parametrize("failure", OWNER_FAILURES, ids=lambda f: f.code)
@pytest.mark.parametrize("step", ["running", "verify"])
async def test_nothing_is_stored_while_the_owner_is_away(
    ada: Client, agent: str, owner: ScriptedOwner, failure: Failure, step: str
) -> None:
    owner.fails[step] = failure
    error = await ada.refused(503, "POST", ROOT, body(agent))
    assert (error["type"], error["code"]) == ("owner_unavailable", failure.code)
    owner.fails.clear()
    assert await names(ada) == []


@pytest.mark.req("CLU-26")
@pytest.mark.req("TG-11")
async def test_a_token_that_is_refused_is_not_stored(ada: Client, agent: str, owner: ScriptedOwner) -> None:
    owner.fails["verify"] = PlatformRefused("Telegram does not accept the token", reason="credentials")
    error = await ada.refused(400, "POST", ROOT, body(agent))
    assert (error["param"], error["code"]) == ("token", "credentials")
    assert error["message"] == "Telegram does not accept the token"
    assert await names(ada) == []


@pytest.mark.case("TG-22")
async def test_a_webhook_of_another_program_has_to_be_taken_over_in_words(
    ada: Client, agent: str, owner: ScriptedOwner
) -> None:
    owner.fails["verify"] = PlatformRefused(
        "taken", reason="conflict", detail={"code": "webhook_set", "webhook": "hooks.example.org"}
    )
    error = await ada.refused(400, "POST", ROOT, body(agent))
    assert (error["code"], error["param"]) == ("webhook_set", "take_over_webhook")
    assert "hooks.example.org" in error["message"]
    owner.fails.clear()
    await ada.post(ROOT, body(agent, take_over_webhook=True), status=201)
    assert [request.take_over_webhook for request in owner.named("verify")] == [False, True]  # type: ignore[attr-defined]


@pytest.mark.req("CLU-27")
@pytest.mark.parametrize("failure", TRY_LATER, ids=lambda f: f.code)
async def test_a_passing_outage_of_the_platform_does_not_stop_a_save(
    ada: Client, agent: str, owner: ScriptedOwner, failure: Failure
) -> None:
    owner.fails["verify"] = failure
    made = await ada.post(ROOT, body(agent), status=201)
    assert made["has_token"]
    assert "account" not in made
    assert "Test" in made["warning"]
    owner.fails.clear()
    result = await ada.post(f"{ROOT}/{made['id']}/test")
    assert result == {"ok": True, "account": {"id": "12345678", "name": "Support Bot"}}
    assert (await ada.get(f"{ROOT}/{made['id']}"))["account"]["id"] == "12345678"


async def test_a_test_answers_with_what_the_platform_says(
    ada: Client, agent: str, owner: ScriptedOwner
) -> None:
    place = f"{ROOT}/{(await ada.post(ROOT, body(agent), status=201))['id']}/test"
    assert (await ada.post(place))["ok"] is True
    owner.fails["test"] = PlatformUnavailable("Telegram did not answer")
    assert await ada.post(place) == {
        "ok": False,
        "reason": "Telegram did not answer",
        "code": "platform_unavailable",
    }
    owner.fails["test"] = PlatformRefused("Telegram does not accept the token", reason="credentials")
    assert (await ada.post(place))["reason"] == "Telegram does not accept the token"
    owner.fails["test"] = OwnerUnreachable("away")
    assert (await ada.refused(503, "POST", place))["type"] == "owner_unavailable"


@pytest.mark.req("CLU-20")
async def test_a_healthy_owner_without_kinds_gives_an_empty_list(ada: Client, owner: ScriptedOwner) -> None:
    owner.kinds = []
    assert await ada.get(f"{ROOT}/kinds") == {"kinds": [], "capabilities": []}


@pytest.mark.req("BIND-05")
async def test_a_kind_says_what_a_person_needs_only_when_its_add_on_does(ada: Client) -> None:
    kinds = {kind["id"]: kind for kind in (await ada.get(f"{ROOT}/kinds"))["kinds"]}
    assert kinds["telegram"]["setup"] == "a bot token from @BotFather"
    assert "setup" not in kinds["notes"]


@pytest.mark.req("CLU-24")
@pytest.mark.parametrize("failure", OWNER_FAILURES, ids=lambda f: f.code)
async def test_an_owner_that_is_away_is_an_error_that_tells_what_to_look_at(
    ada: Client, agent: str, owner: ScriptedOwner, failure: Failure
) -> None:
    await ada.post(ROOT, body(agent), status=201)
    owner.fails["running"] = failure
    error = await ada.refused(503, "GET", f"{ROOT}/kinds")
    assert (error["type"], error["code"]) == ("owner_unavailable", failure.code)
    assert "connector add-on runs" in error["message"]
    assert "private carrier" in error["message"]
    [own] = (await ada.get(ROOT))["connectors"]
    assert (own["active"], own["reason"]) == (False, "the owner of the add-ons cannot be reached")


@pytest.mark.req("CLU-28")
@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (PlatformRefused("no", reason="credentials"), 400),
        (Denied("this account may not use connections"), 403),
        (OwnerUnready("starting"), 503),
    ],
    ids=["refused", "denied", "away"],
)
async def test_a_replacement_that_is_refused_leaves_everything_as_it_was(
    api: Running, ada: Client, agent: str, owner: ScriptedOwner, failure: Failure, status: int
) -> None:
    made = await ada.post(ROOT, body(agent), status=201)
    sealed = await api.database.fetchval("SELECT sealed FROM binding_secrets")
    owner.fails["verify"] = failure
    await ada.refused(status, "PUT", f"{ROOT}/{made['id']}", {"name": "new", "token": "999:bad"})
    assert await ada.get(f"{ROOT}/{made['id']}") == made
    assert await api.database.fetchval("SELECT sealed FROM binding_secrets") == sealed


@pytest.mark.req("CLU-28")
async def test_a_replacement_by_somebody_without_the_right_leaves_everything_as_it_was(
    api: Running, ada: Client, agent: str, owner: ScriptedOwner
) -> None:
    made = await ada.post(ROOT, body(agent), status=201)
    sealed = await api.database.fetchval("SELECT sealed FROM binding_secrets")
    asked = len(owner.named("verify"))
    nobody = api.client("")
    featureless = await api.person("Bob", "agents", "chats")
    another = await api.person("Cid", "connectors", "agents")
    for caller, status in ((nobody, 401), (featureless, 403), (another, 404)):
        await caller.refused(status, "PUT", f"{ROOT}/{made['id']}", {"name": "new", "token": "999:bad"})
    assert await ada.get(f"{ROOT}/{made['id']}") == made
    assert await api.database.fetchval("SELECT sealed FROM binding_secrets") == sealed
    assert len(owner.named("verify")) == asked, "the platform was not asked either"


@pytest.mark.req("BIND-14")
@pytest.mark.req("BIND-34")
@pytest.mark.req("BIND-35")
@pytest.mark.req("BIND-38")
async def test_an_update_keeps_what_it_does_not_name(api: Running, ada: Client, agent: str) -> None:
    made = await ada.post(ROOT, body(agent, allow=["5"], options={"threads": "any"}), status=201)
    sealed = await api.database.fetchval("SELECT sealed FROM binding_secrets")
    changed = await ada.put(f"{ROOT}/{made['id']}", {"name": "renamed"})
    assert changed == made | {"name": "renamed", "revision": 2}
    assert changed["options"] == {"threads": "any"}
    assert await api.database.fetchval("SELECT sealed FROM binding_secrets") == sealed
    cleared = await ada.put(f"{ROOT}/{made['id']}", {"allow": [], "token": ""})
    assert (cleared["allow"], cleared["has_token"], cleared["reason"]) == ([], False, "no token saved")
    error = await ada.refused(409, "PUT", f"{ROOT}/{made['id']}", {"name": "late", "revision": 1})
    assert error["param"] == "revision"


@pytest.mark.req("BIND-36")
@pytest.mark.req("BIND-37")
async def test_an_option_outside_the_declaration_is_a_400(ada: Client, agent: str) -> None:
    for options, param in [({"colour": "red"}, "options.colour"), ({"threads": "all"}, "options.threads")]:
        assert (await ada.refused(400, "POST", ROOT, body(agent, options=options)))["param"] == param
    assert await names(ada) == []


async def test_another_bot_starts_a_new_account_epoch_at_the_beginning(
    api: Running, ada: Client, agent: str, owner: ScriptedOwner
) -> None:
    made = await ada.post(ROOT, body(agent), status=201)
    read = "SELECT b.account_epoch, c.account_epoch AS of_cursor, c.position FROM bindings b JOIN binding_cursor c ON c.binding_id = b.id"
    await api.database.execute("UPDATE binding_cursor SET position = '77'")
    await ada.put(f"{ROOT}/{made['id']}", {"token": "12345678:rotated"})
    assert tuple(await api.database.fetchrow(read)) == (1, 1, "77"), "the same bot goes on where it was"
    owner.me = Me("87654321", "Other Bot")
    changed = await ada.put(f"{ROOT}/{made['id']}", {"token": "87654321:other"})
    assert changed["account"] == {"id": "87654321", "name": "Other Bot"}
    assert tuple(await api.database.fetchrow(read)) == (2, 2, "")


@pytest.mark.req("TWIN-11")
@pytest.mark.req("TWIN-12")
@pytest.mark.req("TWIN-13")
@pytest.mark.req("TWIN-14")
@pytest.mark.req("TWIN-15")
@pytest.mark.req("TWIN-16")
async def test_one_bot_connected_twice_is_asked_about(ada: Client, agent: str) -> None:
    first = await ada.post(ROOT, body(agent, enabled=True, name="first"), status=201)
    error = await ada.refused(409, "POST", ROOT, body(agent, enabled=True, name="second"))
    assert (error["type"], error["param"]) == ("duplicate_connection", "first")
    assert await names(ada) == ["first"]
    twin = {"enabled": True, "name": "second", "confirm_duplicate": "answer twice"}
    second = await ada.post(ROOT, body(agent, **twin), status=201)
    for each, other in ((first, "second"), (second, "first")):
        duplicate = (await ada.get(f"{ROOT}/{each['id']}"))["duplicate"]
        assert (duplicate["code"], duplicate["name"]) == ("duplicate_connection", other)
    assert duplicate["message"] == (
        "This bot is also connected as first. Both connections will answer the same message."
    )
    off = await ada.post(f"{ROOT}/{second['id']}/disable")
    assert "duplicate" not in off
    error = await ada.refused(409, "PUT", f"{ROOT}/{second['id']}", {"enabled": True})
    assert error["type"] == "duplicate_connection"
    assert (await ada.post(f"{ROOT}/{second['id']}/enable"))["duplicate"]["name"] == "first"


async def test_two_saves_of_one_bot_at_once_are_not_both_let_through(ada: Client, agent: str) -> None:
    answers = await asyncio.gather(
        *(ada.call("POST", ROOT, body(agent, enabled=True, name=f"b{n}")) for n in range(4))
    )
    assert sorted(status for status, _ in answers) == [201, 409, 409, 409]


async def test_the_switch_applies_at_once_and_forgets_the_old_reason(
    api: Running, ada: Client, agent: str
) -> None:
    made = await ada.post(ROOT, body(agent, enabled=True), status=201)
    place = f"{ROOT}/{made['id']}"
    off = await ada.post(f"{place}/disable")
    assert (off["enabled"], off["active"], off["reason"]) == (False, False, "it is switched off")
    await api.database.execute("UPDATE bindings SET off_reason = 'Telegram refuses the token.'")
    assert (await ada.get(place))["reason"] == "Telegram refuses the token."
    on = await ada.post(f"{place}/enable")
    assert (on["enabled"], on["active"], "reason" in on) == (True, True, False)


async def test_a_deleted_binding_is_gone(ada: Client, agent: str) -> None:
    made = await ada.post(ROOT, body(agent), status=201)
    await ada.delete(f"{ROOT}/{made['id']}")
    await ada.refused(404, "GET", f"{ROOT}/{made['id']}")
    await ada.refused(404, "DELETE", f"{ROOT}/{made['id']}")


@pytest.mark.req("BIND-09")
@pytest.mark.req("BIND-10", page=False)
async def test_a_binding_without_its_add_on_is_kept_and_says_what_to_do(
    api: Running, ada: Client, agent: str, owner: ScriptedOwner
) -> None:
    made = await ada.post(ROOT, body(agent, enabled=True), status=201)
    await api.database.execute("UPDATE bindings SET addon = ''")
    assert (await ada.get(f"{ROOT}/{made['id']}"))["active"] is True, "the add-on of its kind serves it"
    owner.kinds = []
    await ada.get(f"{ROOT}/kinds")
    kept = await ada.get(f"{ROOT}/{made['id']}")
    assert (kept["enabled"], kept["active"]) == (True, False)
    assert kept["reason"] == "install the Telegram add-on"


async def test_a_tool_only_kind_answers_nobody(ada: Client, agent: str) -> None:
    given = {"kind": "notes", "name": "Notes", "token": "1:x"}
    for more in ({"enabled": True}, {"accept_any": True, "confirm_accept_any": "accept any message"}):
        await ada.refused(400, "POST", ROOT, given | more)
    made = await ada.post(ROOT, given, status=201)
    assert (made["credentials_only"], made["agent_id"], made["active"]) == (True, "", True)


async def test_a_kind_that_nothing_serves_cannot_be_connected(ada: Client, agent: str) -> None:
    error = await ada.refused(400, "POST", ROOT, body(agent, kind="pigeon"))
    assert error["param"] == "kind"


@pytest.mark.req("BIND-20")
async def test_a_sender_of_the_log_can_be_let_in(api: Running, ada: Client, agent: str) -> None:
    made = await ada.post(ROOT, body(agent, allow=["1"]), status=201)
    place = f"{ROOT}/{made['id']}"
    await api.database.execute(
        "INSERT INTO senders (binding_id, sender_id, name, count, chat, reason) VALUES "
        "($1, '5', 'Eve', 3, '5', 'not_listed'), ($1, '6', '', 1, '', '')",
        made["id"],
    )
    log = {each["id"]: each for each in (await ada.get(f"{place}/senders"))["senders"]}
    assert (log["5"]["count"], log["5"]["chat"], log["5"]["reason"]) == (3, "5", "not_listed")
    assert not {"name", "chat", "chat_name", "reason"} & set(log["6"])
    assert (await ada.post(f"{place}/senders/5/allow"))["allow"] == ["1", "5"]
    again = await ada.post(f"{place}/senders/5/allow")
    assert (again["allow"], again["revision"]) == (["1", "5"], 2)
    await ada.refused(404, "POST", f"{place}/senders/7/allow")


async def test_the_token_is_sealed_to_its_binding(
    api: Running, ada: Client, agent: str, owner: ScriptedOwner
) -> None:
    made = await ada.post(ROOT, body(agent), status=201)
    [request] = owner.named("verify")
    sealed = await api.database.fetchval("SELECT sealed FROM binding_secrets")
    assert request.sealed == sealed  # type: ignore[attr-defined]
    assert sealed.startswith("v1.")
    assert MARKED_TOKEN.partition(":")[2] not in str(await api.database.fetch("SELECT * FROM bindings"))
    assert token_record(made["id"]) == f"binding:{made['id']}:token"


async def test_no_call_to_the_owner_carries_a_clear_token(
    ada: Client, agent: str, owner: ScriptedOwner
) -> None:
    made = await ada.post(ROOT, body(agent), status=201)
    await ada.put(f"{ROOT}/{made['id']}", {"token": MARKED_TOKEN})
    await ada.post(f"{ROOT}/{made['id']}/test")
    assert MARKED_TOKEN not in str(owner.asked)
    assert len({actor for name, _, actor in owner.asked if name in {"verify", "test"}}) == 1


@pytest.mark.req("TOK-03")
@pytest.mark.req("TOK-09")
async def test_no_answer_and_no_log_line_holds_the_token(
    ada: Client, agent: str, owner: ScriptedOwner, capfd: pytest.CaptureFixture[str]
) -> None:
    made = await ada.post(ROOT, body(agent), status=201)
    place = f"{ROOT}/{made['id']}"
    await ada.refused(400, "POST", ROOT, body(agent, surprise=MARKED_TOKEN))
    await ada.call("POST", ROOT, {"kind": "telegram", "token": [MARKED_TOKEN], "name": "x"})
    await ada.call("PUT", place, b'{"token": "' + MARKED_TOKEN.encode() + b'"')
    owner.fails["verify"] = PlatformRefused("Telegram does not accept the token", reason="credentials")
    await ada.refused(400, "PUT", place, {"token": MARKED_TOKEN})
    owner.fails["verify"] = PlatformUnavailable("no answer")
    await ada.put(place, {"token": MARKED_TOKEN, "name": "again"})
    owner.fails["verify"] = RuntimeError("a fault of ours")  # type: ignore[assignment]
    await ada.refused(500, "PUT", place, {"token": MARKED_TOKEN})
    await ada.post(f"{place}/test")
    await ada.get(ROOT)
    await ada.get(f"{ROOT}/kinds")
    await ada.post(f"{place}/enable")
    out, err = capfd.readouterr()
    secret = MARKED_TOKEN.partition(":")[2]
    assert secret not in out + err
    assert secret not in "".join(ada.seen)


async def test_an_agent_of_another_cannot_be_put_in_even_without_the_add_on(
    api: Running, ada: Client, agent: str, owner: ScriptedOwner
) -> None:
    bob = await api.person("Bob", "connectors", "agents")
    foreign = (await bob.post("/api/agents", {"name": "his", "model": "m"}, status=201))["id"]
    made = await ada.post(ROOT, body(agent), status=201)
    owner.kinds = []
    error = await ada.refused(400, "PUT", f"{ROOT}/{made['id']}", {"agent_id": foreign})
    assert error["param"] == "agent_id"
    assert (await ada.get(f"{ROOT}/{made['id']}"))["agent_id"] == agent
