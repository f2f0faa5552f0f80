"""The key for tokens as a row: whoever comes first makes it, and all have the same one."""

import asyncio

import pytest

from shared.store import Database, keyring


@pytest.mark.req("TOK-07")
async def test_two_processes_that_start_at_once_open_what_the_other_has_sealed(
    store: Database, other: Database
) -> None:
    first, second = await asyncio.gather(keyring.load_or_create(store), keyring.load_or_create(other))
    assert (
        second.open(first.seal("a token", record="binding:bnd_1:token"), record="binding:bnd_1:token")
        == "a token"
    )
    assert (
        first.open(second.seal("another", record="binding:bnd_1:token"), record="binding:bnd_1:token")
        == "another"
    )
