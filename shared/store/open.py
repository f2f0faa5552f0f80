"""How a service opens the store and the key ring at its start."""

from pathlib import Path

from shared.config.sections import Database as DatabaseSettings
from shared.config.sections import Sealing
from shared.sealing import KeyFile, KeyRing
from shared.store import keyring, schema
from shared.store.database import Database, refuse_pooler


class Store:
    """The database at the right schema. A Service; raises StoreUnavailable at start with what to do."""

    def __init__(self, settings: DatabaseSettings, *, name: str) -> None:
        self._settings = settings
        self.database = Database(settings, name=name)

    async def start(self) -> None:
        await self.database.start()
        try:
            await refuse_pooler(self.database)
            await schema.migrate(self.database, self._settings.url)
        except BaseException:
            await self.database.stop()
            raise

    async def stop(self) -> None:
        await self.database.stop()


async def key_ring(settings: Sealing, database: Database) -> KeyRing:
    """The ring of this installation: the file where one is set, else the shared row.

    Raises KeyFileRefused for a file that others may read.
    """
    if settings.key_file:
        return KeyFile(Path(settings.key_file)).load_or_create()
    return await keyring.load_or_create(database)
