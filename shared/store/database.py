import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol, cast

import asyncpg
import orjson
import structlog

from shared.config.sections import Database as DatabaseSettings
from shared.store.jsonb import encoded

log = structlog.get_logger(__name__)

#: longest time that a transaction may sit idle; a stopped process must not hold row locks for ever
IDLE_IN_TRANSACTION_MS = 3000

#: what a lost or refused connection looks like
CONNECTION_ERRORS = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    OSError,
    TimeoutError,
)

#: what the server says to a statement that may go well another time: shutting down, out of room, a deadlock
PASSING_ERRORS = (
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
    asyncpg.ReadOnlySQLTransactionError,
)

#: what opening a connection may raise besides: a refusal of the server, or an address that is none
START_ERRORS = (*CONNECTION_ERRORS, asyncpg.PostgresError, asyncpg.ClientConfigurationError, ValueError)


class StoreUnavailable(Exception):
    """The database cannot be reached or cannot be used; the text says what to do about it."""


class Connection(Protocol):
    """What repositories need: a pooled connection, inside a transaction or not."""

    async def fetch(self, query: str, *args: Any) -> Sequence[Any]: ...

    async def fetchrow(self, query: str, *args: Any) -> Any: ...

    async def fetchval(self, query: str, *args: Any) -> Any: ...

    async def execute(self, query: str, *args: Any) -> str: ...

    async def executemany(self, query: str, args: Sequence[Sequence[Any]]) -> None: ...


class Database:
    """The pool of one process.

    `fetch` and its kin run one statement on a connection of the pool; `transaction` gives one connection for
    several. All of them raise StoreUnavailable when the server is away; nothing is retried here.
    """

    def __init__(self, settings: DatabaseSettings, *, name: str) -> None:
        self._settings = settings
        self._name = name
        self._pool: asyncpg.Pool | None = None

    async def start(self) -> None:
        if not self._settings.url:
            raise StoreUnavailable("no database is set: give its address in TRUNKLINE_DATABASE_URL")
        try:
            self._pool = await asyncpg.create_pool(
                self._settings.url,
                min_size=0,
                max_size=self._settings.pool_size,
                reset=_nothing_to_reset,
                init=_prepare,
                command_timeout=self._settings.statement_seconds,
                timeout=self._settings.connect_seconds,
                server_settings=self._server_settings(),
            )
        except START_ERRORS as problem:
            raise StoreUnavailable(_sentence(problem)) from None

    async def stop(self) -> None:
        if self._pool is not None:
            pool, self._pool = self._pool, None
            try:
                await asyncio.wait_for(pool.close(), 5.0)
            except TimeoutError:
                pool.terminate()

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        if self._pool is None:
            raise StoreUnavailable("the database connection is not open")
        try:
            async with self._pool.acquire(timeout=self._settings.connect_seconds) as connection:
                yield cast("Connection", connection)
        except (*CONNECTION_ERRORS, *PASSING_ERRORS) as problem:
            raise StoreUnavailable(_sentence(problem)) from problem

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self.connection() as connection, cast("Any", connection).transaction():
            yield connection

    async def fetch(self, query: str, *args: Any) -> Sequence[Any]:
        async with self.connection() as connection:
            return await connection.fetch(query, *args)

    async def fetchrow(self, query: str, *args: Any) -> Any:
        async with self.connection() as connection:
            return await connection.fetchrow(query, *args)

    async def fetchval(self, query: str, *args: Any) -> Any:
        async with self.connection() as connection:
            return await connection.fetchval(query, *args)

    async def execute(self, query: str, *args: Any) -> str:
        async with self.connection() as connection:
            return await connection.execute(query, *args)

    async def executemany(self, query: str, args: Sequence[Sequence[Any]]) -> None:
        async with self.connection() as connection:
            await connection.executemany(query, args)

    async def own_connection(self, purpose: str) -> asyncpg.Connection:
        """A connection outside the pool, for session locks; the caller closes it. Raises StoreUnavailable."""
        try:
            connection = await asyncpg.connect(
                self._settings.url,
                timeout=self._settings.connect_seconds,
                command_timeout=self._settings.statement_seconds,
                server_settings=self._server_settings(purpose),
            )
        except START_ERRORS as problem:
            raise StoreUnavailable(_sentence(problem)) from None
        try:
            await _prepare(connection)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _server_settings(self, purpose: str = "") -> dict[str, str]:
        return {"application_name": f"trunkline {self._name} {purpose}".strip()[:63], "timezone": "UTC"}


#: set after connecting, because a pooler in session mode refuses what it does not know at the start
SESSION = f"""
SET idle_in_transaction_session_timeout = {IDLE_IN_TRANSACTION_MS};
SET jit = off;
-- Our statements are look-ups by key with arrays as parameters: planning them anew at every call would cost more
-- than running them. The plan is made once, while tables are small, and must be the one for large ones: by index.
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
"""


async def _nothing_to_reset(_connection: Any) -> None:
    """Pooled connections change no session state, so giving one back costs no round trip."""


async def _prepare(connection: Any) -> None:
    await connection.execute(SESSION)
    for kind in ("json", "jsonb"):
        await connection.set_type_codec(
            kind, schema="pg_catalog", encoder=encoded, decoder=orjson.loads, format="text"
        )


def _sentence(problem: BaseException) -> str:
    """What went wrong with the database, without its address or password."""
    if isinstance(problem, asyncpg.InvalidPasswordError | asyncpg.InvalidAuthorizationSpecificationError):
        return "the database refuses the sign-in: check user and password in TRUNKLINE_DATABASE_URL"
    if isinstance(problem, asyncpg.InvalidCatalogNameError):
        return "the database named in TRUNKLINE_DATABASE_URL does not exist: create it first"
    if "unsupported startup parameter" in str(problem):
        return POOLER_SENTENCE
    if isinstance(problem, ValueError | asyncpg.ClientConfigurationError):
        return "TRUNKLINE_DATABASE_URL is not a Postgres address such as postgresql://user:password@host:5432/name"
    if isinstance(problem, OSError | TimeoutError | asyncpg.CannotConnectNowError):
        return "the database cannot be reached: check that it runs and that TRUNKLINE_DATABASE_URL names it"
    return f"the database cannot be used now ({type(problem).__name__})"


POOLER_SENTENCE = (
    "the database address leads to a pooler in transaction mode, under which locks of a session get lost: "
    "give the address of Postgres itself, or a pooler port in session mode, in TRUNKLINE_DATABASE_URL"
)


async def refuse_pooler(database: Database) -> None:
    """Raise StoreUnavailable when session locks would not hold (public case CL-04).

    While a second connection keeps a transaction open, the first must still reach its own backend.
    """
    first = await database.own_connection("pooler check")
    try:
        second = await database.own_connection("pooler check")
        try:
            same = await asyncio.wait_for(_keeps_backend(first, second), 5.0)
        except (TimeoutError, asyncpg.PostgresError):
            same = False
        finally:
            await _close(second)
    finally:
        await _close(first)
    if not same:
        raise StoreUnavailable(POOLER_SENTENCE)


async def _keeps_backend(first: Any, second: Any) -> bool:
    query = "SELECT pg_backend_pid()"
    async with first.transaction():
        before = await first.fetchval(query)
    async with second.transaction():
        await second.fetchval(query)
        async with first.transaction():
            return bool(await first.fetchval(query) == before)


async def _close(connection: Any) -> None:
    with contextlib.suppress(Exception):
        await connection.close(timeout=1.0)
