"""The whole path, shared by the tests of a module; each test has bots and chats of its own."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.support.postgres import PostgresServer
from tests.support.rig import Rig, rig


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def path_url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    url = await postgres_server.create()
    yield url
    await postgres_server.drop(url)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def path(path_url: str) -> AsyncIterator[Rig]:
    """Two frontends and one owner, shared by a module."""
    async with rig(path_url, frontends=2) as started:
        yield started
