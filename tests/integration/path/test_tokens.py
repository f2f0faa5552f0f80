"""The token of a bot, and when a binding switches itself off."""

from typing import Any

import pytest

from tests.support.rig import Bot, Rig

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def state(path: Rig, bot: Bot) -> tuple[bool, str]:
    row = await path.database.fetchrow("SELECT enabled, off_reason FROM bindings WHERE id = $1", bot.binding)
    return row["enabled"], row["off_reason"]


async def switched_off(path: Rig, bot: Bot, *, within: float = 10.0) -> str:
    await path.eventually("SELECT NOT enabled FROM bindings WHERE id = $1", bot.binding, within=within)
    return (await state(path, bot))[1]


async def notices(path: Rig, bot: Bot) -> int:
    return int(
        await path.database.fetchval(
            "SELECT count(*) FROM notifications WHERE user_id = $1 AND sort = 'binding_off'", bot.user
        )
    )


@pytest.mark.req("TOK-01")
async def test_one_changed_byte_of_a_sealed_token_is_a_problem_and_no_other_token(path: Rig) -> None:
    bot = await path.bot()
    sealed = await path.database.fetchval(
        "SELECT sealed FROM binding_secrets WHERE binding_id = $1", bot.binding
    )
    assert "marked-secret" not in sealed
    broken = sealed[:-6] + ("A" if sealed[-6] != "A" else "B") + sealed[-5:]
    await path.database.execute(
        "UPDATE binding_secrets SET sealed = $2 WHERE binding_id = $1", bot.binding, broken
    )
    await path.touch(bot)
    assert await switched_off(path, bot)
    assert {call["bot"] for call in await path.calls(bot)} <= {bot.token.partition(":")[0]}


@pytest.mark.req("TOK-02")
async def test_a_sealed_token_does_not_open_in_another_binding(path: Rig) -> None:
    bot, other = await path.bot(), await path.bot()
    await path.database.execute(
        "UPDATE binding_secrets SET sealed = $2 WHERE binding_id = $1",
        other.binding,
        path.sealed(bot, bot.token),
    )
    await path.touch(other)
    assert await switched_off(path, other)
    assert (await state(path, bot))[0]


@pytest.mark.req("OFF-02")
@pytest.mark.req("OFF-09")
async def test_a_refused_token_switches_off_and_works_from_the_stored_position_afterwards(path: Rig) -> None:
    bot = await path.bot()
    await path.says(bot, 5001, "before")
    await path.answer(bot, 5001, "You said: before")
    await path.sim.post("telegram/bots", {"token": bot.token, "refuse": True})
    assert await switched_off(path, bot)
    assert await notices(path, bot) == 1
    await path.says(bot, 5001, "meanwhile")
    await path.sim.post("telegram/bots", {"token": bot.token, "refuse": False})
    status, switched_on = await path.api(bot, "POST", f"{bot.binding}/enable")
    assert (status, switched_on["enabled"], switched_on.get("reason", "")) == (200, True, "")
    await path.answer(bot, 5001, "You said: meanwhile")
    assert await path.visible(bot, 5001) == ["You said: before", "You said: meanwhile"]


@pytest.mark.req("TOK-04", page=False)
async def test_a_new_token_is_the_one_that_is_used(path: Rig) -> None:
    bot = await path.bot()
    await path.says(bot, 5001, "old token")
    await path.answer(bot, 5001, "You said: old token")
    renewed = Bot(bot.token.partition(":")[0] + ":another-secret-0000", bot.binding, bot.agent, bot.user)
    await path.save_token(bot, renewed.token)
    await path.sim.post("telegram/bots", {"token": bot.token, "refuse": True})
    await path.says(renewed, 5001, "new token")
    await path.answer(renewed, 5001, "You said: new token")
    assert (await state(path, bot))[0]


@pytest.mark.case("TG-16")
async def test_three_conflicts_stop_nothing(path: Rig) -> None:
    bot = await path.bot()
    await path.fault(bot, "getUpdates", status=409, body=CONFLICT, times=3)
    await path.says(bot, 5001, "after the conflict")
    await path.answer(bot, 5001, "You said: after the conflict")
    assert await state(path, bot) == (True, "")


@pytest.mark.req("OFF-08")
@pytest.mark.parametrize(
    "fault", [{"status": 502, "body": "bad gateway"}, {"drop": "before"}, {"status": 500}], ids=str
)
async def test_a_passing_failure_does_not_switch_off(path: Rig, fault: dict[str, Any]) -> None:
    bot = await path.bot()
    await path.fault(bot, "getUpdates", times=4, **fault)
    await path.says(bot, 5001, "once it is back")
    await path.answer(bot, 5001, "You said: once it is back")
    assert await state(path, bot) == (True, "")


@pytest.mark.req("TOK-09")
@pytest.mark.case("TG-19")
async def test_the_token_is_in_no_log_line_error_row_or_metric(
    path: Rig, capfd: pytest.CaptureFixture[str]
) -> None:
    bot = await path.bot(addons=["probe"])
    echoed = {
        "ok": False,
        "error_code": 400,
        "description": f"Bad Request: https://api.test/bot{bot.token}/x",
    }
    await path.fault(bot, "getUpdates", status=502, body=f"gateway for /bot{bot.token}/getUpdates")
    await path.fault(bot, "getUpdates", drop="before")
    await path.fault(bot, "editMessageText", status=400, body=echoed)
    await path.fault(bot, "sendChatAction", status=404, body=echoed | {"error_code": 404})
    await path.says(bot, 5001, "keep it to yourself")
    await path.answer(bot, 5001, "You said: keep it to yourself")
    await path.sim.post("telegram/bots", {"token": bot.token, "refuse": True})
    await switched_off(path, bot)
    said = capfd.readouterr()
    rows = await path.database.fetch(
        "SELECT to_jsonb(d)::text AS row FROM deliveries d UNION ALL SELECT to_jsonb(a)::text FROM audit a "
        "UNION ALL SELECT to_jsonb(n)::text FROM notifications n UNION ALL SELECT to_jsonb(b)::text FROM bindings b"
    )
    async with path.sim.http.get(path.replicas[0].frontend.url + "/metrics") as response:
        metrics = await response.text()
    everything = said.out + said.err + metrics + "".join(row["row"] for row in rows)
    assert "marked-secret" not in everything


CONFLICT = {"ok": False, "error_code": 409, "description": "Conflict: terminated by other getUpdates request"}
