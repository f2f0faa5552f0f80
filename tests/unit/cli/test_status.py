"""What `trunkline status` asks of a running cluster, and what people see of it."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from services.cli.status import ask, show

READY = {
    "ready": True,
    "checks": {
        "messages": {"ok": True, "oldest_waiting_seconds": 1.5},
        "links": {"ok": True, "deaf": 2, "oldest_poll_seconds": 31.25},
    },
}


class Frontend:
    """One living frontend, whose cluster remembers a dead one at the same address."""

    url = ""
    asked = 0

    async def cluster(self, request: web.Request) -> web.Response:
        rows = [
            {"id": "dead", "version": "0.1", "url": self.url, "alive": False, "shards": []},
            {"id": "living", "version": "0.1", "url": self.url, "alive": True, "shards": [0, 2]},
        ]
        return web.json_response({"frontends": rows, "owner": {"state": "ready", "addons": []}})

    async def readyz(self, request: web.Request) -> web.Response:
        self.asked += 1
        return web.json_response(READY)


@pytest.fixture
async def frontend() -> AsyncIterator[Frontend]:
    made, app = Frontend(), web.Application()
    app.add_routes([web.get("/api/cluster", made.cluster), web.get("/readyz", made.readyz)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


async def test_a_dead_frontend_is_counted_and_its_successor_does_not_answer_for_it(
    frontend: Frontend, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    report = await ask(frontend.url, "key")
    assert frontend.asked == 1
    assert ["readyz" in row for row in report["frontends"]] == [False, True]
    show(report)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["frontend", "leads", "shards"]
    assert lines[1].split()[:5] == ["living", "★", "0,", "2", "yes"]
    assert "1.5 s" in lines[1]
    assert lines[2].strip() == "1 gone in the last day"
    assert lines[3] == "links  deaf connections 2, oldest poll 31.2 s ago"


async def test_links_that_no_frontend_tells_of_are_unknown(
    frontend: Frontend, capsys: pytest.CaptureFixture[str]
) -> None:
    report = await ask(frontend.url, "key")
    report["frontends"][1]["readyz"] = None
    show(report)
    assert "links  unknown" in capsys.readouterr().out.splitlines()
