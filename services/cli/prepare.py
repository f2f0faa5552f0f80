"""Hidden: what `up` has done once before it starts the services, in a process that is gone afterwards."""

import os
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from services.cli import certs
from services.cli.serving import Parent, ReadyFd, once
from shared.config import Settings, load

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
    """Migrate, make certificates that last, and make the first administrator's key and sign-in link, and the samples of the demo."""
    if certificates is not None:
        _certify(certificates)
    once(lambda: _prepare(load(), demo_bot, model), ready_fd=ready_fd, parent=end_with_parent)


async def _prepare(settings: Settings, demo_bot: str, model: str) -> dict[str, Any]:
    from services.cli.local import bootstrap
    from shared.observe import logs
    from shared.store.open import Store, key_ring

    logs.configure(settings.log, "prepare")
    store = Store(settings.database, name="prepare")
    await store.start()
    try:
        ring = await key_ring(settings.sealing, store.database)
        if demo_bot:
            records = await bootstrap.bootstrap_demo(
                store.database, ring, telegram_token=demo_bot, model=model
            )
            return {"pid": os.getpid(), **asdict(records)}
        return {"pid": os.getpid(), **asdict(await bootstrap.bootstrap(store.database))}
    finally:
        await store.stop()


def _certify(folder: Path) -> None:
    rows = certs.ensure(folder, _PEERS, valid=_VALID)
    if any(row.days_left < _RENEW_BELOW for row in rows[1:]):
        certs.ensure(folder, _PEERS, valid=_VALID, renew=True)
