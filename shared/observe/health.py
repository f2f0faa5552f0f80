"""`/healthz` (the process runs), `/readyz` (it can do its work, with the reasons) and `/metrics` of any service."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web
from prometheus_client import generate_latest

from shared.observe.metrics import REGISTRY

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class Finding:
    """The result of one check: `sentence` says what is wrong and what to do; `facts` are figures for operators."""

    ok: bool
    sentence: str = ""
    facts: dict[str, Any] = field(default_factory=dict)


Check = Callable[[], Awaitable[Finding]]


class Health:
    """The checks of one process. `ready` is off until the start is over and from the beginning of the stop."""

    def __init__(self, service: str, version: str) -> None:
        self._service = service
        self._version = version
        self._checks: dict[str, Check] = {}
        self.ready = False

    def add(self, name: str, check: Check) -> None:
        self._checks[name] = check

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/healthz", self._healthz),
            web.get("/readyz", self._readyz),
            web.get("/metrics", self._metrics),
        ]

    async def report(self) -> dict[str, Any]:
        findings = {name: await check() for name, check in self._checks.items()}
        return {
            "service": self._service,
            "version": self._version,
            "ready": self.ready and all(finding.ok for finding in findings.values()),
            "checks": {
                name: {"ok": finding.ok, "message": finding.sentence, **finding.facts}
                for name, finding in findings.items()
            },
        }

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.json_response({"service": self._service, "version": self._version})

    async def _readyz(self, _request: web.Request) -> web.Response:
        report = await self.report()
        return web.Response(
            body=orjson.dumps(report), status=200 if report["ready"] else 503, content_type="application/json"
        )

    async def _metrics(self, _request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(REGISTRY), headers={"Content-Type": CONTENT_TYPE})
