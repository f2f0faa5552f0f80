"""A binding with its owner and agent, and a second way into the same database."""

from collections.abc import AsyncIterator

import pytest

from shared.config.sections import Database as DatabaseSettings
from shared.store import Database

BINDING = "bnd_1"


@pytest.fixture
async def store(database: Database) -> Database:
    """The database with one user, agent and binding."""
    run = database.execute
    await run("INSERT INTO users (id, name, role) VALUES ('usr_1', 'owner', 'admin')")
    await run("INSERT INTO agents (id, user_id, name, model) VALUES ('agt_1', 'usr_1', 'Sam', 'sim-large')")
    await run(
        "INSERT INTO bindings (id, user_id, agent_id, kind, addon, name, enabled, accept_any) "
        "VALUES ($1, 'usr_1', 'agt_1', 'telegram', 'telegram', 'Bot', true, true)",
        BINDING,
    )
    await run("INSERT INTO binding_cursor (binding_id) VALUES ($1)", BINDING)
    return database


@pytest.fixture
async def other(database_url: str, store: Database) -> AsyncIterator[Database]:
    """Another process, so to speak."""
    database = Database(DatabaseSettings(url=database_url, pool_size=4), name="other")
    await database.start()
    yield database
    await database.stop()
