"""How fast the carrier is, beside grpc.aio and aiohttp keep-alive HTTP.

    python -m benchmarks.carrier [--rounds 5] [--seconds 2] [--json]

All three carry the same typed call with an empty body over TLS 1.3 with both ends proven, from one client process
to one server process; each call has a deadline and a check of its authority. Rounds are interleaved, so that
whatever else the machine does strikes all alike; medians are told. The bars: at least 6 times the calls of
grpc.aio with 32 in flight, and at most half of its time one at a time.
"""

import argparse
import asyncio
import json
import os
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import grpc
import msgspec
import uvloop
from aiohttp import web

from shared.carrier import (
    Call,
    CarrierClient,
    CarrierServer,
    ClientIdentity,
    Handlers,
    Operation,
    ServerIdentity,
)
from shared.carrier.certs import issue, make_ca
from shared.carrier.identities import context
from shared.domain.errors import Denied

T = TypeVar("T")
IN_FLIGHT = 32
DEADLINE = 10.0
AUTHORITY = "user"


class Ask(msgspec.Struct):
    text: str = ""


class Told(msgspec.Struct):
    text: str = ""


NOOP = Operation("bench.noop", 1, Ask, Told, deadline=DEADLINE, authority=AUTHORITY)
encode = msgspec.msgpack.encode
decode_ask = msgspec.msgpack.Decoder(Ask).decode
decode_told = msgspec.msgpack.Decoder(Told).decode
Once = Callable[[], Awaitable[Any]]


class Peer:
    """One way to make the call: `serve` runs in the server process, `connect` and `close` in this one."""

    name = ""

    def __init__(self, folder: Path) -> None:
        self.server = ServerIdentity(folder / "owner-main.pem", folder / "owner-main.key", folder / "ca.pem")
        self.client = ClientIdentity(folder / "frontend-a.pem", folder / "frontend-a.key", folder / "ca.pem")

    async def serve(self) -> int:
        raise NotImplementedError

    async def connect(self, port: int) -> Once:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


class Carrier(Peer):
    name = "carrier"

    async def serve(self) -> int:
        handlers = Handlers()
        handlers.on(NOOP, _noop)
        self.running = CarrierServer(handlers, identity=self.server, authorize=_authorize)
        await self.running.start()
        return self.running.port

    async def connect(self, port: int) -> Once:
        self.caller = CarrierClient("127.0.0.1", port, self.client, connect_grace=5.0)
        await self.caller.start()
        return lambda: self.caller.call(NOOP, Ask(), actor="u1")

    async def close(self) -> None:
        await self.caller.stop()


class Grpc(Peer):
    """grpc.aio with generic handlers, so that its payloads are the same typed structs in MessagePack."""

    name = "grpc.aio"

    async def serve(self) -> int:
        async def noop(request: Ask, call: Any) -> Told:
            facts = dict(call.invocation_metadata())
            if facts.get("actor") != "u1" or call.time_remaining() is None:
                await call.abort(grpc.StatusCode.PERMISSION_DENIED, "no")
            return Told(request.text)

        method = grpc.unary_unary_rpc_method_handler(
            noop, request_deserializer=decode_ask, response_serializer=encode
        )
        self.running = grpc.aio.server()
        self.running.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("bench", {"noop": method}),)
        )
        credentials = grpc.ssl_server_credentials(
            [(self.server.key.read_bytes(), self.server.certificate.read_bytes())],
            root_certificates=self.server.ca.read_bytes(),
            require_client_auth=True,
        )
        port = self.running.add_secure_port("127.0.0.1:0", credentials)
        await self.running.start()
        return int(port)

    async def connect(self, port: int) -> Once:
        credentials = grpc.ssl_channel_credentials(
            self.client.ca.read_bytes(), self.client.key.read_bytes(), self.client.certificate.read_bytes()
        )
        options = [("grpc.ssl_target_name_override", self.client.server_name)]
        self.channel = grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials, options=options)
        noop = self.channel.unary_unary(
            "/bench/noop", request_serializer=encode, response_deserializer=decode_told
        )

        async def once() -> Any:
            return await noop(Ask(), timeout=DEADLINE, metadata=(("actor", "u1"),))

        return once

    async def close(self) -> None:
        await self.channel.close()


class Http(Peer):
    """aiohttp on both ends, connections kept alive."""

    name = "aiohttp"

    async def serve(self) -> int:
        async def noop(request: web.Request) -> web.Response:
            if request.headers.get("actor") != "u1":
                raise web.HTTPForbidden
            async with asyncio.timeout(float(request.headers["deadline"])):
                told = Told(decode_ask(await request.read()).text)
            return web.Response(body=encode(told))

        app = web.Application()
        app.router.add_post("/noop", noop)
        self.runner = web.AppRunner(app, access_log=None)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0, ssl_context=context(self.server))
        await site.start()
        return int(self.runner.addresses[0][1])

    async def connect(self, port: int) -> Once:
        connector = aiohttp.TCPConnector(limit=IN_FLIGHT)
        self.session = aiohttp.ClientSession(connector=connector)
        tls: ssl.SSLContext = context(self.client)
        url = f"https://127.0.0.1:{port}/noop"
        headers = {"actor": "u1", "deadline": str(DEADLINE)}
        name = self.client.server_name
        timeout = aiohttp.ClientTimeout(total=DEADLINE)

        async def once() -> Any:
            async with self.session.post(
                url, data=encode(Ask()), headers=headers, ssl=tls, server_hostname=name, timeout=timeout
            ) as reply:
                return decode_told(await reply.read())

        return once

    async def close(self) -> None:
        await self.session.close()


async def _noop(request: Ask, _call: Call) -> Told:
    return Told(request.text)


async def _authorize(operation: Operation[Any, Any], call: Call) -> None:
    if operation.authority == AUTHORITY and call.actor != "u1":
        raise Denied("no")


PEERS: dict[str, type[Peer]] = {kind.name: kind for kind in (Carrier, Grpc, Http)}


def run(main: Coroutine[Any, Any, T], name: str) -> T:
    """Each on the loop that suits it best: grpc.aio polls by itself and is no faster, mostly slower, on uvloop."""
    return asyncio.run(main) if name == Grpc.name else uvloop.run(main)


async def serve(name: str, folder: Path) -> None:
    """The server process: tells its port, and ends with its standard input."""
    peer = PEERS[name](folder)
    print(await peer.serve(), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)


async def measure(name: str, folder: Path, port: int, seconds: float) -> dict[str, float]:
    """Calls a second with 32 in flight, and the median time of one at a time in milliseconds."""
    peer = PEERS[name](folder)
    once = await peer.connect(port)
    for _ in range(200):
        await once()
    rate = await _rate(once, seconds)
    latency = await _latency(once, seconds / 2)
    await peer.close()
    return {"calls_per_second": rate, "p50_ms": latency}


async def _rate(once: Once, seconds: float) -> float:
    done = 0
    begun = time.perf_counter()

    async def caller() -> None:
        nonlocal done
        while time.perf_counter() - begun < seconds:
            await once()
            done += 1

    await asyncio.gather(*(caller() for _ in range(IN_FLIGHT)))
    return done / (time.perf_counter() - begun)


async def _latency(once: Once, seconds: float) -> float:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (before := time.perf_counter()) < end:
        await once()
        times.append(time.perf_counter() - before)
    return statistics.median(times) * 1000


def compare(rounds: int, seconds: float) -> dict[str, Any]:
    """Medians of interleaved rounds. Each measurement is a client process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_ca(folder)
        issue(folder, "owner", "main")
        issue(folder, "frontend", "a")
        servers = {kind: _Server(kind, folder) for kind in PEERS}
        try:
            found: dict[str, list[dict[str, float]]] = {kind: [] for kind in PEERS}
            for _ in range(rounds):
                for kind, server in servers.items():
                    found[kind].append(_client(kind, folder, server.port, seconds))
        finally:
            for server in servers.values():
                server.end()
    return _verdict(found)


class _Server:
    def __init__(self, kind: str, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.carrier", "--serve", kind, "--folder", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def end(self) -> None:
        self._process.communicate()


def _client(kind: str, folder: Path, port: int, seconds: float) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.carrier", "--client", kind, "--folder", str(folder)]
    command += ["--port", str(port), "--seconds", str(seconds)]
    told = subprocess.run(command, check=True, capture_output=True, timeout=120)
    measured: dict[str, float] = json.loads(told.stdout)
    return measured


def _verdict(found: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    medians = {
        kind: {fact: statistics.median(one[fact] for one in measured) for fact in measured[0]}
        for kind, measured in found.items()
    }
    ours, theirs = medians["carrier"], medians["grpc.aio"]
    return {
        "in_flight": IN_FLIGHT,
        "peers": medians,
        "rounds": found,
        "rate_ratio": ours["calls_per_second"] / theirs["calls_per_second"],
        "latency_ratio": ours["p50_ms"] / theirs["p50_ms"],
    }


def table(verdict: dict[str, Any]) -> str:
    lines = [f"{'':10} {'calls/s, 32 in flight':>22} {'p50 ms, one at a time':>22}"]
    for kind, facts in verdict["peers"].items():
        lines.append(f"{kind:10} {facts['calls_per_second']:>22,.0f} {facts['p50_ms']:>22.3f}")
    rate, latency = verdict["rate_ratio"], verdict["latency_ratio"]
    lines.append(f"carrier / grpc.aio: {rate:.1f} times the calls (bar: at least 6)")
    lines.append(f"carrier / grpc.aio: {latency:.2f} of the time of one call (bar: at most 0.50)")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of one measurement with 32 in flight")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--client", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        run(serve(given.serve, given.folder), given.serve)
    elif given.client:
        measured = run(measure(given.client, given.folder, given.port, given.seconds), given.client)
        print(json.dumps(measured))
    else:
        verdict = compare(given.rounds, given.seconds)
        print(json.dumps(verdict) if given.json else table(verdict))


if __name__ == "__main__":
    main()
