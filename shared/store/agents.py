"""Saved agents, as rows. Every function is about the agents of one user; those of others do not exist for it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from shared.domain.ids import new_id
from shared.store.database import Connection
from shared.store.people import NameTaken


@dataclass(frozen=True, slots=True)
class AgentRow:
    id: str
    name: str
    description: str
    model: str
    instructions: str
    tools: bool
    addons: list[str]
    grants: list[str]
    revision: int
    created_at: datetime
    updated_at: datetime


async def listed(connection: Connection, user_id: str) -> list[AgentRow]:
    rows = await connection.fetch(f"{_SELECT} WHERE user_id = $1 ORDER BY lower(name)", user_id)
    return [AgentRow(**dict(row)) for row in rows]


async def one(connection: Connection, user_id: str, agent_id: str) -> AgentRow | None:
    row = await connection.fetchrow(f"{_SELECT} WHERE user_id = $1 AND id = $2", user_id, agent_id)
    return AgentRow(**dict(row)) if row else None


async def named(connection: Connection, user_id: str, name: str) -> AgentRow | None:
    row = await connection.fetchrow(
        f"{_SELECT} WHERE user_id = $1 AND lower(name) = lower($2)", user_id, name
    )
    return AgentRow(**dict(row)) if row else None


async def add(connection: Connection, user_id: str, values: dict[str, Any]) -> AgentRow:
    """A new agent; `values` by column. Raises NameTaken."""
    values = {"id": new_id("agt"), "user_id": user_id, **values}
    places = ", ".join(f"${n}" for n in range(1, len(values) + 1))
    query = f"INSERT INTO agents ({', '.join(values)}) VALUES ({places}) RETURNING {_COLUMNS}"  # noqa: S608 - columns are ours
    try:
        row = await connection.fetchrow(query, *values.values())
    except asyncpg.UniqueViolationError:
        raise NameTaken(values["name"]) from None
    return AgentRow(**dict(row))


async def change(
    connection: Connection, user_id: str, agent_id: str, values: dict[str, Any]
) -> AgentRow | None:
    """Set some columns; None when there is no such agent. Raises NameTaken."""
    sets = "".join(f"{column} = ${n}, " for n, column in enumerate(values, start=3))
    query = f"""UPDATE agents SET {sets} revision = revision + 1, updated_at = now()
      WHERE user_id = $1 AND id = $2 RETURNING {_COLUMNS}"""  # noqa: S608 - columns are ours
    try:
        row = await connection.fetchrow(query, user_id, agent_id, *values.values())
    except asyncpg.UniqueViolationError:
        raise NameTaken(values["name"]) from None
    return AgentRow(**dict(row)) if row else None


async def remove(connection: Connection, user_id: str, agent_id: str) -> bool:
    query = "DELETE FROM agents WHERE user_id = $1 AND id = $2"
    return await connection.execute(query, user_id, agent_id) == "DELETE 1"


async def bound_to(connection: Connection, user_id: str, agent_id: str) -> list[tuple[str, str]]:
    """(ID, name) of the enabled bindings that answer as this agent."""
    rows = await connection.fetch(
        "SELECT id, name FROM bindings WHERE user_id = $1 AND agent_id = $2 AND enabled ORDER BY id",
        user_id,
        agent_id,
    )
    return [(row["id"], row["name"]) for row in rows]


_COLUMNS = (
    "id, name, description, model, instructions, tools, addons, grants, revision, created_at, updated_at"
)
_SELECT = f"SELECT {_COLUMNS} FROM agents"  # noqa: S608 - constants only
