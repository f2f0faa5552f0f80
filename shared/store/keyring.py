"""The key ring for tokens as a row that every process shares (TOK-07)."""

from shared.sealing import KeyRing
from shared.store.database import Connection

_KEY = "sealing.ring"


async def load_or_create(connection: Connection) -> KeyRing:
    """The shared ring; the first process that asks makes it, and all get the same one."""
    await connection.execute(
        "INSERT INTO settings (key, value) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        _KEY,
        KeyRing.generate().to_text(),
    )
    return KeyRing.from_text(await connection.fetchval("SELECT value FROM settings WHERE key = $1", _KEY))
