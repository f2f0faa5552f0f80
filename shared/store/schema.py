"""Brings the database to the schema that this code needs."""

from pathlib import Path
from typing import Any

import structlog

from shared.store.database import Database, StoreUnavailable
from shared.store.migrations import HEAD

log = structlog.get_logger(__name__)

MIGRATION_LOCK = 7_264_001
LOCK_TIMEOUT = "5s"
STATEMENT_TIMEOUT = "60s"


async def current_revision(database: Database) -> str:
    """The revision that the database is at; empty for a new one."""
    known = await database.fetchval("SELECT to_regclass('alembic_version') IS NOT NULL")
    return str(await database.fetchval("SELECT version_num FROM alembic_version") or "") if known else ""


async def migrate(database: Database, url: str) -> bool:
    """Run what is missing, under an advisory lock; True when something was run.

    Processes that start together wait for each other here. Raises StoreUnavailable when a migration fails:
    each one is a transaction, so the schema is as before the failed one.
    """
    if await current_revision(database) == HEAD:
        return False
    connection = await database.own_connection("migrations")
    try:
        await connection.fetchval("SELECT pg_advisory_lock($1)", MIGRATION_LOCK, timeout=300)
        before = await current_revision(database)
        if before == HEAD:
            return False
        if before and before not in _known_revisions():
            raise StoreUnavailable(
                f"the database is at schema {before}, which is newer than this program ({HEAD}): update the program"
            )
        await _upgrade(url)
    finally:
        await connection.close(timeout=5.0)
    log.info("schema_migrated", before=before or "empty", after=HEAD)
    return True


def _known_revisions() -> set[str]:
    from alembic.script import ScriptDirectory

    return {script.revision for script in ScriptDirectory.from_config(_alembic()).walk_revisions()}


def _alembic() -> Any:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    return config


async def _upgrade(url: str) -> None:
    from alembic import command
    from sqlalchemy.ext.asyncio import create_async_engine
    from sqlalchemy.pool import NullPool

    engine = create_async_engine(
        "postgresql+asyncpg" + url[url.index("://") :],
        poolclass=NullPool,
        connect_args={
            "server_settings": {"lock_timeout": LOCK_TIMEOUT, "statement_timeout": STATEMENT_TIMEOUT}
        },
    )

    def run(connection: Any) -> None:
        config = _alembic()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

    try:
        async with engine.connect() as connection:
            await connection.run_sync(run)
            await connection.commit()
    except Exception as problem:
        raise StoreUnavailable(
            f"a migration failed and was undone: {type(problem).__name__}: {problem}"
        ) from problem
    finally:
        await engine.dispose()
