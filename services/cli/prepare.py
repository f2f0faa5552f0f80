"""Hidden: what `up` has done once before it starts the services, in a process that is gone afterwards."""

import os
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from services.cli import certs
from services.cli.serving import Parent, ReadyFd, once
from shared.config import Settings, load

if TYPE_CHECKING:
    from shared.store import Database

_PEERS = [("owner", "local"), ("frontend", "local")]
_VALID = timedelta(days=365)
#: certificates of a local cluster are made again at a start when fewer days are left
_RENEW_BELOW = 30


def prepare(
    demo_bot: Annotated[str, typer.Option(help="Token of the sample bot; empty makes no samples.")] = "",
    model: Annotated[str, typer.Option(help="Model of the sample agent.")] = "",
    certificates: Annotated[Path | None, typer.Option(help="Folder for those of the carrier.")] = None,
    ready_fd: ReadyFd = None,
    end_with_parent: Parent = None,
) -> None:
    """Migrate; make certificates, the first administrator's key and sign-in link, and the demo's samples."""

    async def work() -> dict[str, Any]:
        if certificates is not None:
            _certify(certificates)
        return await _prepare(load(), demo_bot, model)

    once(work, ready_fd=ready_fd, parent=end_with_parent)


async def _prepare(settings: Settings, demo_bot: str, model: str) -> dict[str, Any]:
    from shared.observe import logs
    from shared.store.open import Store

    logs.configure(settings.log, "prepare")
    store = Store(settings.database, name="prepare")
    await store.start()
    try:
        return {"pid": os.getpid(), **await _records(settings, store.database, demo_bot, model)}
    finally:
        await store.stop()


async def _records(settings: Settings, database: "Database", demo_bot: str, model: str) -> dict[str, Any]:
    from services.frontend.bootstrap import bootstrap, bootstrap_demo, setup_url
    from shared.store.open import key_ring

    if demo_bot:
        ring = await key_ring(settings.sealing, database)
        made = asdict(await bootstrap_demo(database, ring, telegram_token=demo_bot, model=model))
    else:
        made = asdict(await bootstrap(database))
    token = made.pop("sign_in_token")
    return {**made, "sign_in_path": setup_url("", token) if token else "/"}


def _certify(folder: Path) -> None:
    rows = certs.ensure(folder, _PEERS, valid=_VALID)
    if any(row.days_left < _RENEW_BELOW for row in rows[1:]):
        certs.ensure(folder, _PEERS, valid=_VALID, renew=True)
