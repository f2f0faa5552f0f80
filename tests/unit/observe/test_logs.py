"""What reaches a log, and what never does."""

import subprocess
import sys

import pytest

PROGRAM = """
import structlog
from shared.config.sections import Log
from shared.observe.logs import configure

def work(api_key: str) -> None:
    raise RuntimeError("it broke")

configure(Log(format=FORMAT), "test")
try:
    work("".join(["hidden", "-", "value"]))
except RuntimeError:
    structlog.get_logger().exception("work_failed")
"""


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_traceback_shows_no_value_of_a_variable(form: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("FORMAT", repr(form))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "it broke" in done.stderr
    assert "work_failed" in done.stderr
    assert "hidden-value" not in done.stderr


SERVER = """
import asyncio
from aiohttp import web
from shared.config.sections import Log
from shared.observe.logs import configure

async def broken(_request: web.Request) -> web.Response:
    raise RuntimeError("it broke")

async def main() -> None:
    configure(Log(), "test")
    app = web.Application()
    app.router.add_get("/", broken)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    for header in ("Cookie: hidden-value" + "x" * 9000, "Accept: a"):
        reader, writer = await asyncio.open_connection(*runner.addresses[0][:2])
        writer.write(f"GET / HTTP/1.1\\r\\nHost: a\\r\\n{header}\\r\\nConnection: close\\r\\n\\r\\n".encode())
        print((await reader.readline()).decode())
        writer.close()
    await runner.cleanup()

asyncio.run(main())
"""


def test_a_request_that_is_no_http_leaves_no_header_in_the_log() -> None:
    done = subprocess.run([sys.executable, "-c", SERVER], capture_output=True, text=True, check=True)
    assert "400" in done.stdout
    assert "500" in done.stdout
    assert "it broke" in done.stderr
    assert "hidden-value" not in done.stderr
