"""Users, features, sessions and keys, as rows."""

from dataclasses import dataclass

from shared.store.database import Connection


@dataclass(frozen=True, slots=True)
class Standing:
    """What an acting user may do right now."""

    id: str
    role: str
    features: frozenset[str]


async def authority(connection: Connection, user_id: str) -> Standing | None:
    """The standing of an enabled user; None when there is none."""
    row = await connection.fetchrow(_AUTHORITY, user_id)
    return Standing(row["id"], row["role"], frozenset(row["features"])) if row else None


_AUTHORITY = """
SELECT u.id, u.role, ARRAY(SELECT f.feature FROM features f WHERE f.user_id = u.id) AS features
FROM users u WHERE u.id = $1 AND u.disabled_at IS NULL
"""
