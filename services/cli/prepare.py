"""Hidden: what `up` has done once before it starts the services, in a process that is gone afterwards."""

import asyncio
import os
from dataclasses import asdict
from typing import Annotated, Any

import typer

from services.cli.serving import Parent, ReadyFd, once
from shared.config import Settings, load


def prepare(
    demo_bot: Annotated[str, typer.Option(help="Token of the sample bot; empty makes no samples.")] = "",
    model: Annotated[str, typer.Option(help="Model of the sample agent.")] = "",
    ready_fd: ReadyFd = None,
    end_with_parent: Parent = None,
) -> None:
    """Migrate, and make the first administrator's key and sign-in link, and the samples of the demo."""
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
