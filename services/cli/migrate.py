"""`trunkline migrate`: brings the database to the schema of this program."""

import asyncio
import json
from typing import Annotated

import typer

from shared.config import Settings, load


def migrate(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Run the migrations that the database lacks. Services do the same at their start."""
    from shared.observe import logs

    settings = load()
    logs.configure(settings.log, "migrate")
    before, after = asyncio.run(_migrate(settings))
    if as_json:
        print(json.dumps({"from": before, "to": after, "changed": before != after}))
    elif before == after:
        print(f"The schema is current: {after}.")
    else:
        print(f"Migrated from {before or 'an empty database'} to {after}.")


async def _migrate(settings: Settings) -> tuple[str, str]:
    """The revisions before and after."""
    from shared.store import Database, schema
    from shared.store.database import refuse_pooler

    database = Database(settings.database, name="migrate")
    await database.start()
    try:
        await refuse_pooler(database)
        before = await schema.current_revision(database)
        await schema.migrate(database, settings.database.url)
        return before, await schema.current_revision(database)
    finally:
        await database.stop()
