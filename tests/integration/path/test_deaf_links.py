"""A link that went silent is noticed, shown and made anew, and what was written meanwhile is answered once.

The settings state the time: a poll gets its wait (1 s) and `poll.deaf_seconds` (1 s).
"""

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from tests.support.postgres import PostgresServer
from tests.support.proxy import Relay
from tests.support.rig import Bot, Replica, Rig, rig
from tests.support.until import until_answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

WAIT = DEAF = 1.0
#: what a busy machine may add
SLACK = 4.0


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def relay() -> AsyncIterator[Relay]:
    """Between the add-on and its platform."""
    relay = Relay(0)
    await relay.start()
    yield relay
    await relay.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def short(postgres_server: PostgresServer, relay: Relay) -> AsyncIterator[Rig]:
    """Two frontends, and short times for a poll."""
    url = await postgres_server.create()
    behind = {"development_hosts": json.dumps({"telegram_api": f"http://127.0.0.1:{relay.port}"})}
    times = {"wait_seconds": WAIT, "deaf_seconds": DEAF, "backoff_seconds": 0.5}
    async with rig(url, frontends=2, owner=behind, poll=times) as started:
        port = urlsplit(started.sim.url).port
        assert port is not None
        relay.target = port
        yield started
    await postgres_server.drop(url)


async def liveness(path: Rig, bot: Bot) -> dict[str, Any]:
    status, view = await path.api(bot, "GET", bot.binding)
    assert status == 200, view
    found: dict[str, Any] = view["liveness"]
    return found


async def becomes(path: Rig, bot: Bot, state: str) -> dict[str, Any]:
    """The liveness of a binding, once it is in a state."""

    async def is_so() -> dict[str, Any] | None:
        found = await liveness(path, bot)
        return found if found["state"] == state else None

    found: dict[str, Any] = await until_answer(is_so, within=20)
    return found


async def readyz(path: Rig, replica: Replica) -> tuple[int, Any]:
    async with path.sim.http.get(replica.frontend.url + "/readyz") as response:
        return response.status, (await response.json())["checks"]["links"]


async def gauge(path: Rig, replica: Replica, name: str) -> float:
    async with path.sim.http.get(replica.frontend.url + "/metrics") as response:
        lines = (await response.text()).splitlines()
    (found,) = (line for line in lines if line.startswith(f"{name} "))
    return float(found.split()[1])


async def listening(path: Rig) -> Bot:
    bot = await path.bot()
    await becomes(path, bot, "listening")
    return bot


async def test_a_poll_that_hangs_is_ended_and_what_was_written_meanwhile_is_answered_once(short: Rig) -> None:
    bot = await listening(short)
    await short.fault(bot, "getUpdates", hang=True, times=1)
    until_hung = await short.sim.get("telegram/calls", since=0)

    async def hangs() -> bool:
        return not (await short.sim.get("telegram/faults"))["faults"]

    await until_answer(hangs)
    await short.says(bot, 5001, "are you there?")
    await short.answer(bot, 5001, "You said: are you there?", within=WAIT + DEAF + SLACK)
    assert await short.visible(bot, 5001) == ["You said: are you there?"]
    polls = [c for c in await short.calls(bot, "getUpdates") if c["n"] >= until_hung["next"] - 1]
    hung = next(n for n, call in enumerate(polls) if call["status"] == 0)
    assert WAIT < polls[hung + 1]["at"] - polls[hung]["at"] < WAIT + DEAF + SLACK


async def test_a_frozen_connection_is_dropped_and_the_next_poll_goes_over_a_new_one(
    short: Rig, relay: Relay
) -> None:
    bot = await listening(short)
    opened = relay.accepted
    relay.freeze_open()
    await short.says(bot, 5002, "through the ice")
    await short.answer(bot, 5002, "You said: through the ice", within=2 * (WAIT + DEAF) + SLACK)
    assert relay.accepted > opened
    await short.says(bot, 5002, "and again")
    await short.answer(bot, 5002, "You said: and again")
    assert await short.visible(bot, 5002) == ["You said: through the ice", "You said: and again"]


@pytest.mark.case("TG-20")
async def test_every_frontend_tells_of_a_deaf_connection_and_stays_ready(short: Rig) -> None:
    bot = await listening(short)
    await short.fault(bot, "getUpdates", hang=True, times=1000)
    deaf = await becomes(short, bot, "deaf")
    assert deaf["failure"] in {"", "deadline"}
    assert deaf["since"] is not None
    assert deaf["last_poll_at"] is not None
    failing = await until_answer(lambda: _failing(short, bot))
    assert failing["failure"] == "deadline"
    assert "does not answer" in failing["sentence"]
    for replica in short.replicas:
        status, links = await readyz(short, replica)
        assert (status, links["ok"], links["deaf"], links["deaf_ids"]) == (200, True, 1, [bot.binding])
        assert links["oldest_poll_seconds"] > WAIT + DEAF
        assert links["message"] == "1 connection hears nothing from its platform; it says why in its liveness"
        assert links["worst"][0]["id"] == bot.binding
        assert links["worst"][0]["last_poll_seconds"] > WAIT + DEAF
        assert links["oldest_frame_seconds"] > WAIT + DEAF
    assert await gauge(short, short.replicas[0], "trunkline_deaf_bindings") == 1
    assert await gauge(short, short.replicas[0], "trunkline_oldest_frame_seconds") > WAIT + DEAF
    await short.sim.delete("telegram/faults")
    heard = await becomes(short, bot, "listening")
    assert heard["last_frame_at"] >= heard["last_poll_at"] > deaf["last_poll_at"]
    assert (await readyz(short, short.replicas[0]))[1]["deaf"] == 0


@pytest.mark.case("TG-20")
async def test_readiness_and_metrics_tell_the_three_ages_of_what_waits(short: Rig) -> None:
    bot = await listening(short)
    await short.script("slowly", {"text": "You said: slowly"}, delay_ms=2500)
    await short.says(bot, 5004, "slowly")

    async def waits() -> dict[str, Any] | None:
        worst = (await readyz(short, short.replicas[1]))[1]["worst"]
        return next((each for each in worst if (each["oldest_waiting_seconds"] or 0) > 0.5), None)

    found = await until_answer(waits)
    assert (found["id"], found["state"]) == (bot.binding, "listening")
    assert 0 <= found["last_frame_seconds"] < WAIT + DEAF + SLACK
    assert 0 <= found["last_poll_seconds"] < WAIT + DEAF + SLACK
    for name in ("poll", "frame", "waiting"):
        assert await gauge(short, short.replicas[1], f"trunkline_oldest_{name}_seconds") >= 0
    await short.answer(bot, 5004, "You said: slowly")


async def test_a_connection_whose_platform_asked_to_wait_is_not_deaf_meanwhile(short: Rig) -> None:
    bot = await listening(short)
    asked = WAIT + DEAF + 3
    limited = {
        "ok": False,
        "error_code": 429,
        "description": "Too Many Requests: retry later",
        "parameters": {"retry_after": int(asked)},
    }
    await short.fault(bot, "getUpdates", status=429, body=limited, times=1)
    waiting = await becomes(short, bot, "waiting")
    assert waiting["failure"] == "platform_limited"
    assert "nothing to do" in waiting["sentence"]
    assert waiting["last_frame_at"] > waiting["last_poll_at"], "it spoke, and no poll of it was completed"

    async def silent_for_long() -> dict[str, Any] | None:
        _, links = await readyz(short, short.replicas[0])
        (own,) = (each for each in links["worst"] if each["id"] == bot.binding)
        return links if own["last_poll_seconds"] > WAIT + DEAF + 0.5 else None

    links = await until_answer(silent_for_long)
    assert (links["deaf"], links["deaf_ids"], links["message"]) == (0, [], "")
    assert (await liveness(short, bot))["state"] == "waiting"
    await until_answer(lambda: _is_well(short, bot))


async def _is_well(path: Rig, bot: Bot) -> bool:
    found = await liveness(path, bot)
    return (found["state"], found["failure"]) == ("listening", "")


async def _failing(path: Rig, bot: Bot) -> dict[str, Any] | None:
    found = await liveness(path, bot)
    return found if found["failure"] else None


async def test_a_connection_tells_its_failure_and_that_it_is_off(short: Rig) -> None:
    bot = await listening(short)
    conflict = {
        "ok": False,
        "error_code": 409,
        "description": "Conflict: terminated by other getUpdates request",
    }
    await short.fault(bot, "getUpdates", status=409, body=conflict, times=1000)
    failing = await until_answer(lambda: _failing(short, bot), within=20)
    assert failing["failure"] == "conflict"
    assert "Another program" in failing["sentence"]
    await short.sim.delete("telegram/faults")
    await until_answer(lambda: _is_well(short, bot))
    await short.switch(bot, on=False)
    off = await becomes(short, bot, "off")
    assert (off["failure"], off["sentence"]) == ("", "It is switched off. Switch it on to let it listen.")


async def test_a_waiting_message_shows_its_age(short: Rig) -> None:
    bot = await listening(short)
    assert (await liveness(short, bot))["oldest_waiting_seconds"] is None
    await short.script("take your time", {"text": "You said: take your time"}, delay_ms=1500)
    await short.says(bot, 5003, "take your time")

    async def waits() -> bool:
        return ((await liveness(short, bot))["oldest_waiting_seconds"] or 0) > 0.1

    await until_answer(waits)
    await short.answer(bot, 5003, "You said: take your time")
