"""A frontend over a scripted owner, on a database of its own."""

from collections.abc import AsyncIterator

import pytest

from shared.store import Database
from tests.support.frontend import Running, ScriptedOwner, running_frontend, settings_for


@pytest.fixture
def owner() -> ScriptedOwner:
    return ScriptedOwner()


@pytest.fixture
async def api(database_url: str, database: Database, owner: ScriptedOwner) -> AsyncIterator[Running]:
    async with running_frontend(settings_for(database_url), owner.carrier(), database) as running:
        yield running
