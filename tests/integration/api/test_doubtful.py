"""The list of parts in doubt over the API, with both ways out of it."""

import asyncio
from typing import Any

import pytest

from tests.support.frontend import Client, Running

LIST = "/api/chats/connectors/bnd_1/doubtful"


@pytest.fixture
async def ada(api: Running) -> Client:
    """Somebody with a binding of their own that is switched on."""
    ada = await api.person("ada", "connectors")
    run = api.database.execute
    await run(
        "INSERT INTO bindings (id, user_id, kind, addon, name, enabled) "
        "SELECT 'bnd_1', id, 'telegram', 'telegram', 'Bot', true FROM users WHERE name = 'ada'"
    )
    await run("INSERT INTO lanes (binding_id, platform_chat, next_delivery) VALUES ('bnd_1', '5001', 100)")
    return ada


async def part(api: Running, state: str = "unknown", **fields: Any) -> int:
    """The ID of a part in this state."""
    row = {"purpose": "answer", "text": "hello", "error": {"code": "outcome_unknown"}, **fields}
    return int(
        await api.database.fetchval(
            "INSERT INTO deliveries (binding_id, platform_chat, seq, thread, chat_id, purpose, action, body, state, "
            "error, finished_at) SELECT 'bnd_1', '5001', 1 + count(*), '7', 'cht_1', $1, 'send', $2, $3, $4, now() "
            "FROM deliveries RETURNING id",
            row["purpose"],
            {"text": row["text"], "markup": "", "plain": row["text"]},
            state,
            row["error"],
        )
    )


async def test_each_part_says_what_where_why_and_since_when(api: Running, ada: Client) -> None:
    refused = {"code": "platform_refused", "reason": "gone", "message": "Telegram refused: chat not found"}
    failed = await part(api, "failed", error=refused, text="x" * 500)
    unknown = await part(api)
    first, second = (await ada.get(LIST))["parts"]
    assert (first["id"], first["purpose"], first["text"]) == (unknown, "answer", "hello")
    assert (first["chat"], first["thread"], first["chat_id"]) == ("5001", "7", "cht_1")
    assert (first["state"], first["code"], first["can_send"]) == ("unknown", "outcome_unknown", True)
    assert "may be visible already" in first["why"]
    assert first["since"]
    assert (second["id"], second["state"], second["code"]) == (failed, "failed", "gone")
    assert len(second["text"]) == 200


async def test_the_list_is_paged(api: Running, ada: Client) -> None:
    made = [await part(api) for _ in range(5)]
    first = (await ada.get(f"{LIST}?limit=3"))["parts"]
    second = (await ada.get(f"{LIST}?limit=3&before={first[-1]['id']}"))["parts"]
    assert [each["id"] for each in [*first, *second]] == made[::-1]


async def test_send_again_plans_it_once_and_leaves_a_trace(api: Running, ada: Client) -> None:
    old = await part(api)
    answers = await asyncio.gather(*(ada.call("POST", f"{LIST}/{old}/send") for _ in range(2)))
    assert sorted(status for status, _ in answers) == [202, 409]
    new = next(answer["id"] for status, answer in answers if status == 202)
    late = next(answer["error"] for status, answer in answers if status == 409)
    assert (late["type"], late["code"], late["param"]) == ("conflict_error", "not_doubtful", "delivery")
    row = await api.database.fetchrow("SELECT state, resent_as FROM deliveries WHERE id = $1", old)
    assert tuple(row) == ("resent", new)
    (trace,) = await api.database.fetch("SELECT act, object, facts FROM audit WHERE act LIKE 'delivery.%'")
    assert tuple(trace) == ("delivery.send_again", str(old), {"binding": "bnd_1", "resent_as": new})
    assert (await ada.get(LIST))["parts"] == []


async def test_dismiss_takes_it_from_the_list_once_and_sends_nothing(api: Running, ada: Client) -> None:
    old = await part(api)
    await ada.post(f"{LIST}/{old}/dismiss")
    assert (await ada.get(LIST))["parts"] == []
    for act in ("dismiss", "send"):
        assert (await ada.refused(409, "POST", f"{LIST}/{old}/{act}"))["code"] == "not_doubtful"
    assert await api.database.fetchval("SELECT count(*) FROM deliveries") == 1
    assert (
        await api.database.fetchval("SELECT act FROM audit WHERE object = $1", str(old)) == "delivery.dismiss"
    )


async def test_a_working_message_is_listed_and_dismissed_but_not_sent_again(
    api: Running, ada: Client
) -> None:
    step = await part(api, purpose="working")
    (shown,) = (await ada.get(LIST))["parts"]
    assert (shown["can_send"], bool(shown["cannot_send"])) == (False, True)
    refusal = await ada.refused(409, "POST", f"{LIST}/{step}/send")
    assert (refusal["code"], refusal["message"]) == ("step", shown["cannot_send"])
    await ada.post(f"{LIST}/{step}/dismiss")


async def test_with_the_connection_off_nothing_is_sent_and_it_says_how_to_mend_that(
    api: Running, ada: Client
) -> None:
    old = await part(api)
    await api.database.execute("UPDATE bindings SET enabled = false, off_reason = 'Put in a new token.'")
    refusal = await ada.refused(409, "POST", f"{LIST}/{old}/send")
    assert refusal["code"] == "binding_off"
    assert "Put in a new token." in refusal["message"]
    assert await api.database.fetchval("SELECT state FROM deliveries WHERE id = $1", old) == "unknown"


async def test_to_everybody_else_it_does_not_exist(api: Running, ada: Client) -> None:
    old = await part(api)
    for other in (await api.person("bob", "connectors"), api.admin):
        await other.refused(404, "GET", LIST)
        for act in ("send", "dismiss"):
            await other.refused(404, "POST", f"{LIST}/{old}/{act}")
    for wrong in ("0", "x", "9" * 30, str(old + 1)):
        await ada.refused(404, "POST", f"{LIST}/{wrong}/send")
    assert await api.database.fetchval("SELECT state FROM deliveries WHERE id = $1", old) == "unknown"
