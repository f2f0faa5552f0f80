"""What is done to a cluster: acts on its parts, faults of the platform and the model, and the instant for each."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import psutil

from shared.lifecycle.points import Point
from tests.chaos.evidence import Event
from tests.chaos.rack import LEASE, Rack

#: seconds that a process is stopped, or a line is silent: longer than any lease
STOPPED = LEASE + 0.8
#: seconds that a fault without a point waits for a turn that it can meet
WAIT = 2.0
#: seconds that an armed point gets to be reached with a turn in flight
PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Fault:
    """`act` happens to `target` (a part, or a role: leader, holder, hit) at `point`, or after `at` seconds.

    `seconds` is how long it lasts, for acts that do.
    """

    act: str
    target: str
    at: float = 0.0
    point: Point | None = None
    seconds: float = STOPPED

    @property
    def kind(self) -> str:
        """How reports call it."""
        return f"{self.act} {self.target}"


@dataclass(slots=True)
class Landed:
    """A fault that happened: what, when, until when, and whether a turn was in flight."""

    fault: Fault
    at: float
    until: float = 0.0
    in_flight: bool = False
    part: str = ""

    def event(self) -> Event:
        place = f" at {self.fault.point}" if self.fault.point else ""
        name = f"{self.fault.kind}{place}" + (f" ({self.part})" if self.part else "")
        return Event(self.at, name, explains=_explains(self))


def _explains(landed: Landed) -> bool:
    """Whether it can lose a reply of the platform: it hit what is between the host and the platform, or Postgres."""
    return landed.part.startswith(("owner", "addon", "postgres")) or landed.fault.target in (
        "platform",
        "postgres",
    )


# -- which part ----------------------------------------------------------------------------------------------


async def part_of(rack: Rack, target: str) -> str:
    """The part that has a role now."""
    if target == "leader":
        holder = await rack.fetchval(
            "SELECT holder FROM leases WHERE name = 'leader' ORDER BY random() LIMIT 1"
        )
        return rack.named(holder or "") or "frontend-1"
    if target == "holder":
        holder = await rack.fetchval(
            "SELECT holder FROM turns WHERE state = 'running' ORDER BY id DESC LIMIT 1"
        )
        return rack.named(holder or "") or "frontend-2"
    return target


async def in_flight(rack: Rack) -> bool:
    """Whether a message is on its way right now: admitted and not answered, or its answer not yet out."""
    return bool(
        await rack.fetchval(
            "SELECT EXISTS (SELECT FROM chats WHERE turn_id IS NOT NULL OR last_user_seq > covered_seq) OR EXISTS "
            "(SELECT FROM deliveries WHERE state IN ('planned', 'sending') AND turn_id IS NOT NULL)"
        )
    )


# -- acts ----------------------------------------------------------------------------------------------------


async def _kill(rack: Rack, part: str, _seconds: float) -> None:
    os.kill(rack.pid(part), signal.SIGKILL)


async def _stop(rack: Rack, part: str, seconds: float) -> None:
    pid = rack.pid(part)
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


async def _stop_and_hold_polls(rack: Rack, part: str, seconds: float) -> None:
    """A stopped leader whose successor claims the positions and hears nothing yet when the old one goes on."""
    await rack.sim.fault("getUpdates", delay_ms=2 * seconds * 1000, times=8)
    await _stop(rack, part, seconds)


async def _end(rack: Rack, part: str, _seconds: float) -> None:
    """An ordinary end (SIGTERM), as in a rolling restart."""
    os.kill(rack.pid(part), signal.SIGTERM)


async def _end_sessions(rack: Rack, part: str, _seconds: float) -> None:
    """The server ends all database sessions of a part."""
    name = (
        "owner"
        if part == "owner"
        else next(
            entry["id"]
            for n, entry in enumerate(rack.cluster.facts()["frontends"], 1)
            if part == f"frontend-{n}"
        )
    )
    query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE $1"
    await rack.fetch(query, f"trunkline {name}%")


def _jump(seconds: str) -> "Act":
    """The clock of the database jumps: for every lease it is the same as if its times had moved the other way."""

    async def act(rack: Rack, _part: str, _seconds: float) -> None:
        await rack.fetch(
            f"WITH l AS (UPDATE leases SET renewed_at = renewed_at - interval '{seconds}' WHERE NOT released) "
            f"UPDATE frontends SET lease_until = lease_until - interval '{seconds}'"
        )

    return act


def _silence(line: str) -> "Act":
    """A partition: nothing passes on a line of the part, and nobody is told."""

    async def act(rack: Rack, part: str, seconds: float) -> None:
        relay = rack.relays[f"{line}:{part}"]
        relay.freeze()
        try:
            await asyncio.sleep(seconds)
        finally:
            relay.thaw()

    return act


def _cut(line: str) -> "Act":
    """Every connection of a line breaks, and new ones are refused for a while."""

    async def act(rack: Rack, part: str, seconds: float) -> None:
        relay = rack.relays[f"{line}:{part}"]
        relay.refusing = True
        relay.cut()
        try:
            await asyncio.sleep(seconds / 2)
        finally:
            relay.refusing = False

    return act


def _platform(**fault: Any) -> "Act":
    async def act(rack: Rack, _part: str, _seconds: float) -> None:
        for method in ("sendMessage", "editMessageText"):
            await rack.sim.fault(method, **fault)

    return act


async def _slow_previews(rack: Rack, _part: str, _seconds: float) -> None:
    """Now and then an edit takes effect long after its answer was due, and what is sent after it takes effect first."""
    for _ in range(6):
        await rack.sim.fault("editMessageText", delay_ms=1500, times=1)
        await asyncio.sleep(0.5)


def _polls(**fault: Any) -> "Act":
    async def act(rack: Rack, _part: str, _seconds: float) -> None:
        await rack.sim.fault("getUpdates", **fault)

    return act


def _model(**fault: Any) -> "Act":
    async def act(rack: Rack, _part: str, _seconds: float) -> None:
        await rack.sim.fault("*", platform="model", **fault)

    return act


_LIMITED = {
    "ok": False,
    "error_code": 429,
    "description": "Too Many Requests: retry after 1",
    "parameters": {"retry_after": 1},
}
Act = Callable[[Rack, str, float], Awaitable[None]]
ACTS: dict[str, Act] = {
    "kill": _kill,
    "stop": _stop,
    "stop, and hold polls, of": _stop_and_hold_polls,
    "end": _end,
    "end sessions of": _end_sessions,
    "jump ahead the clock of": _jump("1 hour"),
    "jump back the clock of": _jump("-20 seconds"),
    "silence database of": _silence("db"),
    "silence carrier of": _silence("carrier"),
    "silence platform of": _silence("platform"),
    "cut database of": _cut("db"),
    "cut carrier of": _cut("carrier"),
    "cut platform of": _cut("platform"),
    "limit": _platform(status=429, body=_LIMITED, times=2),
    "fail": _platform(status=502, body="bad gateway", times=2),
    "hang": _platform(hang=True, times=1),
    "slow down": _platform(delay_ms=1200, times=2),
    "slow down previews of": _slow_previews,
    "lose calls of": _platform(drop="before", times=2),
    "lose replies of": _platform(drop="after", times=2),
    "hang polls of": _polls(hang=True, times=1),
    "lose polls of": _polls(drop="after", times=2),
    "fail polls of": _polls(status=502, body="bad gateway", times=2),
    "fail requests to": _model(status=503, body={"error": {"message": "busy"}}, times=1),
    "lose replies from": _model(drop="after", times=1),
}

_FRONTEND_ACTS = (
    *("kill", "kill", "stop", "end", "stop, and hold polls, of"),
    *("end sessions of", "silence database of", "silence carrier of", "cut database of", "cut carrier of"),
)
_OWNER_ACTS = (
    "kill",
    "kill",
    "stop",
    "end sessions of",
    "silence database of",
    "cut database of",
    "cut platform of",
)
_OWNER_POINTS = frozenset(
    point for point in Point
    if (point.startswith(("tool.", "preview.")) and point != Point.TOOL_TOLD) or point in (
        Point.POLL_AFTER, Point.DELIVERY_BEFORE, Point.DELIVERY_AFTER, Point.DELIVERY_RECORDED)
)  # fmt: skip
#: everything that may happen at any time: (act, target)
ANYTIME = (
    *((act, role) for role in ("leader", "holder") for act in dict.fromkeys(_FRONTEND_ACTS)),
    *((act, "owner") for act in dict.fromkeys((*_OWNER_ACTS, "silence platform of"))),
    *((act, addon) for addon in ("addon-telegram", "addon-probe") for act in ("kill", "stop")),
    *((act, engine) for engine in ("postgres", "nats") for act in ("kill", "stop")),
    *((act, "postgres") for act in ("jump ahead the clock of", "jump back the clock of")),
    *(
        (act, "platform")
        for act in ("limit", "fail", "hang", "slow down", "lose calls of", "lose replies of")
    ),
    *((act, "platform") for act in ("hang polls of", "lose polls of", "fail polls of")),
    *((act, "model") for act in ("fail requests to", "lose replies from")),
)


def plan(seed: int) -> list[Fault]:
    """The faults of a seed: one at a point, each point and each act in its turn, and up to three more at any time.

    In every fourth seed it is alone, so that the silence after it can be told.
    """
    rng = Random(f"faults {seed}")
    others = (0.9, 0.5, 0.3) if seed % 4 else ()
    points = list(Point)
    point = points[seed % len(points)]
    acts = _OWNER_ACTS if point in _OWNER_POINTS else _FRONTEND_ACTS
    faults = [Fault(acts[(seed + seed // len(points)) % len(acts)], "hit", rng.uniform(0.1, 1.0), point)]
    for chance in others:
        if rng.random() < chance:
            act, target = rng.choice(ANYTIME)
            faults.append(Fault(act, target, rng.uniform(0.2, 3.5)))
    return faults


async def inject(rack: Rack, fault: Fault, landed: list[Landed]) -> None:
    """Wait for the instant, let it happen, and mend it; what happened is added to `landed` as it begins."""
    await asyncio.sleep(fault.at)
    if fault.point is None:
        give_up = time.monotonic() + WAIT
        while not await in_flight(rack) and time.monotonic() < give_up:  # noqa: ASYNC110 - only rows tell
            await asyncio.sleep(0.02)
        await _strike(rack, fault, await part_of(rack, fault.target), landed)
    else:
        await _strike_at(rack, fault, landed)


async def _strike_at(rack: Rack, fault: Fault, landed: list[Landed]) -> None:
    """Hold the first process that gets to the point while a turn is in flight, and strike it there."""
    assert fault.point is not None
    give_up = time.monotonic() + PATIENCE
    while (left := give_up - time.monotonic()) > 0:
        rack.gate.arm(fault.point)
        try:
            hit = await asyncio.wait_for(rack.gate.hits.get(), left)
        except TimeoutError:
            break
        try:
            if await in_flight(rack):
                await _strike(rack, fault, rack.name_of(hit.pid), landed)
                return
        finally:
            hit.go()
    rack.gate.disarm()


async def _strike(rack: Rack, fault: Fault, part: str, landed: list[Landed]) -> None:
    happened = Landed(fault, time.time(), in_flight=await in_flight(rack), part=part)
    landed.append(happened)
    try:
        await ACTS[fault.act](rack, part, fault.seconds)
    except (ProcessLookupError, psutil.Error, LookupError):
        landed.remove(happened)  # it has just died of something else
    happened.until = time.time()
