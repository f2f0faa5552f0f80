"""Fixtures that every test may use."""

import structlog

from tests.support.postgres import database, database_url, postgres_server

__all__ = ["database", "database_url", "postgres_server"]

# As services log: a traceback with local values takes seconds, in which the leases of a whole cluster run out.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper("%H:%M:%S.%f"),
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)
