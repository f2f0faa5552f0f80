"""A real Postgres for tests: one server for a run (for each worker, with xdist), one fresh database for a test."""

import asyncio
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from services.cli.local.postgres import EngineFailed, Postgres
from shared.config.sections import Database as DatabaseSettings
from shared.store import Database, schema

TEMPLATE = "template_of_tests"
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """A started server that holds one migrated database, from which those of the tests are copied."""

    url: str

    def url_of(self, name: str) -> str:
        return self.url.rpartition("/")[0] + f"/{name}"

    async def create(self) -> str:
        """The address of a new database at the current schema."""
        name = f"test_{next(_numbers)}"
        await self._maintain(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        return self.url_of(name)

    async def drop(self, url: str) -> None:
        """Remove a database; sessions that are still open end."""
        await self._maintain(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    async def migrate_template(self) -> None:
        await self._maintain(f"CREATE DATABASE {TEMPLATE}")
        settings = DatabaseSettings(url=self.url_of(TEMPLATE))
        database = Database(settings, name="template")
        await database.start()
        try:
            await schema.migrate(database, settings.url)
        finally:
            await database.stop()

    async def _maintain(self, statement: str) -> None:
        connection = await asyncpg.connect(self.url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The server of this run. Where a machine has no Postgres the test is skipped; with CI set it fails."""
    # Not below pytest's own folder: Postgres under root runs as another user, who cannot get in there.
    home = Path(tempfile.mkdtemp(prefix="trunkline-tests-"))
    home.chmod(0o755)
    engine = Postgres(home / "data", fast=True, max_connections=300)
    try:
        server = asyncio.run(_started(engine))
        yield server
    except EngineFailed as failed:
        if os.environ.get("CI"):
            pytest.fail(str(failed))
        pytest.skip(str(failed))
    finally:
        asyncio.run(engine.stop())
        shutil.rmtree(home, ignore_errors=True)


async def _started(engine: Postgres) -> PostgresServer:
    await engine.start()
    server = PostgresServer(engine.url)
    await server.migrate_template()
    return server


@pytest.fixture
async def database_url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    """The address of a database of the test's own, at the current schema."""
    url = await postgres_server.create()
    yield url
    await postgres_server.drop(url)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The same database, opened."""
    database = Database(DatabaseSettings(url=database_url, pool_size=6), name="test")
    await database.start()
    yield database
    await database.stop()
