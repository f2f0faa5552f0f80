"""Fixtures that every test may use."""

from tests.support.postgres import database, database_url, postgres_server

__all__ = ["database", "database_url", "postgres_server"]
