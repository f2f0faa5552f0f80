"""Migrations: one head, once, and whoever comes second waits."""

import asyncio
import sys

import asyncpg
import pytest
from alembic.script import ScriptDirectory

from shared.config.sections import Database as DatabaseSettings
from shared.store import Database, StoreUnavailable, schema
from shared.store.migrations import HEAD
from tests.support.postgres import PostgresServer

MIGRATE = """
import asyncio, sys
from shared.config.sections import Database as Settings
from shared.store import Database, schema
async def main():
    database = Database(Settings(url=sys.argv[1]), name="migrating")
    await database.start()
    print(await schema.migrate(database, sys.argv[1]))
    await database.stop()
asyncio.run(main())
"""


def test_the_newest_script_is_the_head_that_the_program_expects() -> None:
    script = ScriptDirectory.from_config(schema._alembic())
    assert script.get_heads() == [HEAD]


async def test_a_migrated_database_is_left_alone(database: Database, database_url: str) -> None:
    assert await schema.current_revision(database) == HEAD
    assert await schema.migrate(database, database_url) is False


async def test_of_two_processes_at_once_one_migrates_and_both_succeed(
    postgres_server: PostgresServer,
) -> None:
    url = await _empty(postgres_server)
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", MIGRATE, url, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        for _ in range(2)
    ]
    printed = [await process.communicate() for process in processes]
    assert [process.returncode for process in processes] == [0, 0], printed
    assert sorted(out.split()[-1] for out, _ in printed) == [b"False", b"True"]
    await postgres_server.drop(url)


async def test_a_schema_of_a_newer_program_is_refused_in_words(database: Database, database_url: str) -> None:
    await database.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreUnavailable, match="update the program"):
        await schema.migrate(database, database_url)


async def _empty(server: PostgresServer) -> str:
    connection = await asyncpg.connect(server.url)
    try:
        await connection.execute("CREATE DATABASE without_a_schema")
    finally:
        await connection.close()
    assert DatabaseSettings(url=server.url).url
    return server.url_of("without_a_schema")
