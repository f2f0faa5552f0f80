"""Who changed what: a row in the transaction of its effect. Facts are IDs and figures, never texts or secrets."""

from typing import Any

from shared.store.database import Connection


async def write(connection: Connection, actor: str, act: str, target: str, **facts: Any) -> None:
    await connection.execute(
        "INSERT INTO audit (actor, act, object, facts) VALUES ($1, $2, $3, $4)", actor, act, target, facts
    )
