"""The key for tokens as a row: whoever comes first makes it, and all have the same one."""

import asyncio
import os
import sys

import pytest

from shared.store import Database, keyring

#: what a process does with the key ring that its start gives it: seal a word, or open what another has sealed
PROCESS = """
import asyncio, sys
from shared.config import load
from shared.store.open import Store, key_ring

async def main():
    settings = load()
    store = Store(settings.database, name="keys")
    await store.start()
    ring = await key_ring(settings.sealing, store.database)
    act, value = sys.argv[1:]
    print(getattr(ring, act)(value, record="binding:bnd_1:token"))
    await store.stop()

asyncio.run(main())
"""


@pytest.mark.req("TOK-07")
async def test_two_that_start_at_once_open_what_the_other_has_sealed(
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


async def process(database_url: str, act: str, value: str) -> str:
    """The last line of a process that has no key file, on this database."""
    given = {name: text for name, text in os.environ.items() if name != "TRUNKLINE_SEALING_KEY_FILE"}
    running = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", PROCESS, act, value,
        env={**given, "TRUNKLINE_DATABASE_URL": database_url}, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await running.communicate()
    assert running.returncode == 0
    return out.decode().splitlines()[-1]


@pytest.mark.req("TOK-07")
async def test_processes_without_a_key_file_share_the_row(database_url: str) -> None:
    sealed = await asyncio.gather(*(process(database_url, "seal", f"token {n}") for n in range(2)))
    opened = await asyncio.gather(*(process(database_url, "open", text) for text in reversed(sealed)))
    assert opened == ["token 1", "token 0"]
