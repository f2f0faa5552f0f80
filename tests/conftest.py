"""Fixtures that every test may use."""

from collections.abc import Iterator

import pytest
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


@pytest.fixture(autouse=True)
def logs_stay_as_they_are() -> Iterator[None]:
    """What sets up logging for its process runs in one of its own: later tests read what was logged."""
    before = structlog.get_config()
    yield
    assert structlog.get_config() == before
