"""The checks of `trunkline doctor`. Each returns results; what is not set is skipped, not failed."""

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from services.cli.problems import Refused
from shared.config import Settings

#: seconds by which the clocks of this machine and of the database may differ
MOST_SKEW = 2.0
#: days before the end of a certificate from which on the doctor speaks of it
SOON_DAYS = 14
LEAST_SPACE = 256 * 1024 * 1024
_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Result:
    """One finding; `state` is ok, failed or skipped, `fix` says what to do."""

    name: str
    state: str
    sentence: str
    fix: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)


def ok(name: str, sentence: str) -> Result:
    return Result(name, "ok", sentence, "")


def failed(name: str, sentence: str, fix: str) -> Result:
    return Result(name, "failed", sentence, fix)


def skipped(name: str, sentence: str) -> Result:
    return Result(name, "skipped", sentence, "")


async def database(settings: Settings) -> list[Result]:
    """Reachable, a version that is known to work, session locks, the schema, the clock."""
    from shared.store import Database, StoreUnavailable
    from shared.store.database import refuse_pooler

    if not settings.database.url:
        return [skipped("database", "no address is set; `trunkline up` starts a Postgres of its own")]
    store = Database(settings.database, name="doctor")
    try:
        await store.start()
        try:
            await refuse_pooler(store)
            return [await _server(store), await _schema(store), await _clock(store)]
        finally:
            await store.stop()
    except StoreUnavailable as problem:
        sentence, _, fix = str(problem).partition(": ")
        return [failed("database", sentence, fix)]


async def _server(store: Any) -> Result:
    version = str(await store.fetchval("SHOW server_version"))
    if int(version.partition(".")[0]) < 14:
        return failed("database", f"Postgres {version} is too old", "use Postgres 14 or newer")
    return ok("database", f"Postgres {version} answers, and session locks hold")


async def _schema(store: Any) -> Result:
    from shared.store.migrations import HEAD
    from shared.store.schema import current_revision

    revision = await current_revision(store)
    if revision == HEAD:
        return ok("schema", f"the schema is current ({HEAD})")
    return failed(
        "schema",
        f"the database is at {revision or 'no schema'}, this program needs {HEAD}",
        "run `trunkline migrate`; the services do it at their start as well",
    )


async def _clock(store: Any) -> Result:
    before = time.time()
    theirs = (await store.fetchval("SELECT clock_timestamp()")).timestamp()
    skew = abs(theirs - (before + time.time()) / 2)
    if skew > MOST_SKEW:
        return failed("clock", f"this machine and the database differ by {skew:.1f} s", "set both with NTP")
    return ok("clock", f"this machine and the database differ by {skew * 1000:.0f} ms")


async def bus(settings: Settings) -> list[Result]:
    from shared.bus.connect import bus_for

    if not settings.nats.url:
        return [skipped("nats", "no address is set, which suits a single process only")]
    try:
        made = bus_for(settings.nats, name="doctor")
        await made.start()
    except OSError as problem:
        return [
            failed(
                "nats",
                f"its certificates cannot be read: {problem.strerror}",
                "check TRUNKLINE_NATS_CA_FILE and its neighbours",
            )
        ]
    connected = made.connected
    await made.stop()
    if not connected:
        fix = "check that it runs and that TRUNKLINE_NATS_URL names it; meanwhile everything works, later"
        return [failed("nats", "NATS cannot be reached", fix)]
    return [ok("nats", "NATS answers")]


async def carrier(settings: Settings) -> list[Result]:
    """The certificates of this machine, and whether the owner answers."""
    if not settings.carrier.folder:
        return [skipped("carrier", "no certificates are set, which suits the combined form only")]
    paths = await asyncio.to_thread(lambda: sorted(Path(settings.carrier.folder).glob("*.pem")))
    results = [_certificate(path) for path in paths]
    if not results:
        fix = f"make them with `trunkline certs --folder {settings.carrier.folder}`"
        return [failed("carrier", f"{settings.carrier.folder} holds no certificates", fix)]
    if settings.carrier.url:
        results.append(await _owner(settings))
    return results


def _certificate(path: Path) -> Result:
    from services.cli.certs import expiry

    fix = f"renew it with `trunkline certs --folder {path.parent} --renew`"
    try:
        left = (expiry(path) - datetime.now(UTC)).days
    except (OSError, ValueError) as problem:
        return failed("carrier", f"{path.name} cannot be read ({problem})", fix)
    if left < 0:
        return failed("carrier", f"{path.name} has expired", fix)
    note = f"; {fix}" if left < SOON_DAYS else ""
    return ok("carrier", f"{path.name} is valid for {left} more days{note}")


async def _owner(settings: Settings) -> Result:
    from services.cli.carrier import client
    from shared.carrier import operations as ops
    from shared.domain.errors import Failure

    try:
        asking = client(settings.carrier)
        await asking.start()
    except Refused as refused:
        sentence, _, fix = str(refused).partition(": ")
        return failed("owner", sentence, fix)
    try:
        await _connected(asking)
        status = await asking.call(ops.STATUS, ops.Nothing())
    except Failure as failure:
        fix = "check that `trunkline owner` runs at TRUNKLINE_CARRIER_URL, with certificates of the same CA"
        return failed("owner", f"the owner does not answer ({failure.code})", fix)
    finally:
        await asking.stop()
    running = [addon.id for addon in status.addons if addon.state == "running"]
    return ok(
        "owner", f"the owner is {status.state}, term {status.term}, add-ons: {', '.join(running) or 'none'}"
    )


async def _connected(asking: Any) -> None:
    give_up = time.monotonic() + _PATIENCE
    while not asking.connected and time.monotonic() < give_up:  # noqa: ASYNC110 - it has no event for that
        await asyncio.sleep(0.02)


async def model(settings: Settings) -> list[Result]:
    import aiohttp

    if not settings.model.url:
        return [skipped("model", "no model server is set; agents answer nothing without one")]
    key = settings.model.api_key
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    fix = "check that it runs and that TRUNKLINE_MODEL_URL ends in /v1"
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_PATIENCE)) as http,
            http.get(f"{settings.model.url.rstrip('/')}/models", headers=headers) as answer,
        ):
            if answer.status in {401, 403}:
                return [failed("model", "the model server refuses the key", "check TRUNKLINE_MODEL_API_KEY")]
            if answer.status != 200:
                return [failed("model", f"the model server answers {answer.status} to /models", fix)]
            names = [entry.get("id", "") for entry in (await answer.json(content_type=None))["data"]]
    except (aiohttp.ClientError, TimeoutError, ValueError, KeyError, TypeError) as problem:
        return [failed("model", f"the model server cannot be asked ({type(problem).__name__})", fix)]
    return [ok("model", f"the model server offers {len(names)} models: {', '.join(names[:4])}")]


async def folder(settings: Settings) -> list[Result]:
    """The owner's data root: writable, with space left."""
    root = settings.owner.root
    if not root:
        return [skipped("folder", "no folder for add-ons is set; the owner needs one")]
    return [await asyncio.to_thread(_writable, Path(root))]


def _writable(root: Path) -> Result:
    place = root
    while not place.exists() and place != place.parent:
        place = place.parent
    if not os.access(place, os.W_OK | os.X_OK):
        return failed(
            "folder",
            f"{place} cannot be written to",
            "give a folder that this user owns in TRUNKLINE_OWNER_ROOT",
        )
    free = shutil.disk_usage(place).free
    if free < LEAST_SPACE:
        return failed(
            "folder",
            f"{root} has only {free // 2**20} MiB left",
            "free some space, or give another folder",
        )
    return ok("folder", f"{root} can be written to, {free // 2**30} GiB are free")


ALL: tuple[Callable[[Settings], Awaitable[list[Result]]], ...] = (database, bus, carrier, model, folder)
