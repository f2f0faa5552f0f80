"""What has to hold before a binding is stored. Each check raises ApiError that names the field."""

from services.frontend.api.call import Call
from services.frontend.api.connector_types import (
    ACCEPT_ANY,
    ANSWER_TWICE,
    BindingChange,
    BindingNew,
    duplicate_of,
)
from services.frontend.api.errors import ApiError, conflict, invalid
from shared.sdk.manifest import Kind
from shared.store import Connection, agents, bindings
from shared.store.bindings import BindingRow


def check_accept_any(wanted: bool, confirmation: str) -> None:
    if wanted and confirmation != ACCEPT_ANY:
        raise invalid(
            "anyone who finds the bot can then use the agent's tools as you: "
            f'send "confirm_accept_any": "{ACCEPT_ANY}" to turn this on',
            "confirm_accept_any",
            "confirmation_needed",
        )


def check_tool_only(kind: Kind, body: BindingNew | BindingChange) -> None:
    """A connection that only lends its account to tools answers nobody."""
    if not kind.tool_only:
        return
    for name in ("enabled", "accept_any", "agent_id"):
        if getattr(body, name):
            raise invalid(f"{kind.title} is used as a tool and has no {name}", name)


async def check_room(connection: Connection, call: Call) -> None:
    most = call.services.settings.limits.bindings_per_user
    if await bindings.count(connection, call.user.id) >= most:
        raise conflict(f"you have {most} connections already, which is the most", code="too_many_connections")


async def check_agent(connection: Connection, call: Call, kind: Kind | None, agent_id: str) -> None:
    """A binding answers as an agent of its own owner, and brings no model of its own (TG-08)."""
    if kind is not None and kind.tool_only:
        return
    if not agent_id:
        raise invalid("choose the agent that answers", "agent_id")
    agent = await agents.one(connection, call.user.id, agent_id)
    if agent is None:
        raise invalid("you have no such agent", "agent_id")
    if not agent.model:
        raise invalid("this agent has no model; choose one for it first", "agent_id", "no_model")


async def check_twin(connection: Connection, call: Call, row: BindingRow, confirmation: str) -> None:
    """Two enabled bindings of one bot would both answer: ask first (TWIN-12 to TWIN-15)."""
    twin = duplicate_of(row, await bindings.listed(connection, call.user.id))
    if twin is not None and confirmation != ANSWER_TWICE:
        raise ApiError(
            409,
            "duplicate_connection",
            f"this bot is also connected as {twin.name}, and both would answer the same message; "
            f'send "confirm_duplicate": "{ANSWER_TWICE}" to save it anyway',
            param=twin.name,
            code="duplicate_connection",
        )
