"""The ledger of tool calls, as rows. A call is stored before it is made; its ID makes a repetition the same one."""

from dataclasses import dataclass
from typing import Any

from shared.store.database import Connection


@dataclass(frozen=True, slots=True)
class Operation:
    """`state`: started, done, failed or unknown. `owner_term` is the owner that made the call."""

    id: str
    state: str
    owner_term: int
    result: dict[str, Any] | None
    new: bool


async def begin(
    connection: Connection,
    operation: str,
    *,
    turn_id: int,
    epoch: int,
    user_id: str,
    binding_id: str,
    addon: str,
    tool: str,
    arguments: dict[str, Any],
    owner_term: int,
) -> Operation | None:
    """Store a call before it is made, or find the one that was; None when the turn is over or fenced."""
    row = await connection.fetchrow(
        _BEGIN, operation, turn_id, epoch, user_id, binding_id, addon, tool, arguments, owner_term
    )
    if row is None:
        return None
    return Operation(row["id"], row["state"], row["owner_term"], row["result"], row["new"])


async def finish(connection: Connection, operation: str, state: str, result: dict[str, Any]) -> None:
    """Record an outcome; a recorded one is never replaced."""
    await connection.execute(
        "UPDATE operations SET state = $2, result = $3, finished_at = now() WHERE id = $1 AND state = 'started'",
        operation,
        state,
        result,
    )


# The turn must be running under this epoch, whether the call is stored now or was before. Writing the stored row as
# it is makes it visible even when another transaction stored it after this statement began; `xmax` is 0 for a new one.
_BEGIN = """
INSERT INTO operations (id, turn_id, user_id, binding_id, addon, tool, phase, arguments, state, owner_term)
SELECT $1, t.id, $4, $5, $6, $7, 'apply', $8, 'started', $9
FROM turns t WHERE t.id = $2 AND t.epoch = $3 AND t.state = 'running'
ON CONFLICT (id) DO UPDATE SET id = operations.id
RETURNING id, state, owner_term, result, xmax = 0 AS new
"""
