"""Saved agents: what answers, with which model, instructions and tools."""

from typing import Annotated, Any

import msgspec

from services.frontend.api import models
from services.frontend.api.call import Call
from services.frontend.api.errors import conflict, invalid, not_found
from services.frontend.api.routes import Route
from services.frontend.api.views import Name, clean
from shared.bus import subjects
from shared.i18n import say
from shared.store import Connection, admission, agents, audit, people
from shared.store.agents import AgentRow
from shared.store.people import NameTaken

#: bytes of the instructions, which are part of every request to the model
INSTRUCTIONS_BYTES = 32 * 1024

Word = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
Words = Annotated[list[Word], msgspec.Meta(max_length=100)]
Text = Annotated[str, msgspec.Meta(max_length=2000)]
Model = Annotated[str, msgspec.Meta(max_length=200)]
Unset = msgspec.UnsetType


class AgentNew(msgspec.Struct, forbid_unknown_fields=True):
    """`addons` are IDs of installed add-ons whose tools it may use; `grants` what it may do besides."""

    name: Name
    description: Text | Unset = msgspec.UNSET
    model: Model | Unset = msgspec.UNSET
    instructions: str | Unset = msgspec.UNSET
    tools: bool | Unset = msgspec.UNSET
    addons: Words | Unset = msgspec.UNSET
    grants: Words | Unset = msgspec.UNSET


class AgentChange(msgspec.Struct, forbid_unknown_fields=True):
    """What is absent stays. With `revision`, the change is refused when somebody else was faster."""

    name: Name | Unset = msgspec.UNSET
    description: Text | Unset = msgspec.UNSET
    model: Model | Unset = msgspec.UNSET
    instructions: str | Unset = msgspec.UNSET
    tools: bool | Unset = msgspec.UNSET
    addons: Words | Unset = msgspec.UNSET
    grants: Words | Unset = msgspec.UNSET
    revision: int | Unset = msgspec.UNSET


class AgentView(msgspec.Struct, omit_defaults=True):
    id: str
    name: str
    description: str
    model: str
    instructions: str
    tools: bool
    addons: list[str]
    grants: list[str]
    revision: int
    created_at: str
    updated_at: str
    warning: str = ""

    @classmethod
    def of(cls, row: AgentRow, warning: str = "") -> "AgentView":
        return cls(
            row.id,
            row.name,
            row.description,
            row.model,
            row.instructions,
            row.tools,
            row.addons,
            row.grants,
            row.revision,
            row.created_at.isoformat(),
            row.updated_at.isoformat(),
            warning,
        )


class Agents(msgspec.Struct):
    agents: list[AgentView]


async def listed(call: Call) -> Agents:
    return Agents([AgentView.of(row) for row in await agents.listed(call.services.database, call.user.id)])


async def create(call: Call, body: AgentNew) -> AgentView:
    values = _values(body)
    warning = await models.check(call.services, values["model"]) if values.get("model") else ""
    async with call.services.database.transaction() as connection:
        try:
            row = await agents.add(connection, call.user.id, values)
        except NameTaken:
            raise _name_taken() from None
        await audit.write(connection, call.user.id, "agent.add", row.id)
    return AgentView.of(row, warning)


async def read(call: Call) -> AgentView:
    return AgentView.of(await _own(call.services.database, call))


async def change(call: Call, body: AgentChange) -> AgentView:
    values = _values(body)
    stored = await _own(call.services.database, call)
    warning = ""
    if values.get("model", stored.model) not in {"", stored.model}:
        warning = await models.check(call.services, values["model"])
    switched_off: list[str] = []
    async with call.services.database.transaction() as connection:
        await people.lock(connection, call.user.id)
        if body.revision not in {msgspec.UNSET, (await _own(connection, call)).revision}:
            raise conflict("somebody changed this agent meanwhile: read it again", "revision")
        try:
            row = await agents.change(connection, call.user.id, stored.id, values)
        except NameTaken:
            raise _name_taken() from None
        if row is None:
            raise not_found("agent")
        await audit.write(connection, call.user.id, "agent.change", row.id, fields=sorted(values))
        if not row.model:
            switched_off = await _switch_off_bindings(connection, call, row.id, "off_no_model")
    _tell(call, switched_off)
    return AgentView.of(row, warning)


async def remove(call: Call) -> None:
    """Delete an agent; bindings that answered as it are switched off, chats stay (OFF-05)."""
    agent_id = call.path("id")
    async with call.services.database.transaction() as connection:
        await people.lock(connection, call.user.id)
        switched_off = await _switch_off_bindings(connection, call, agent_id, "off_no_agent")
        if not await agents.remove(connection, call.user.id, agent_id):
            raise not_found("agent")
        await audit.write(connection, call.user.id, "agent.remove", agent_id)
    _tell(call, switched_off)


async def _switch_off_bindings(connection: Connection, call: Call, agent_id: str, reason: str) -> list[str]:
    bound = await agents.bound_to(connection, call.user.id, agent_id)
    for binding_id, name in bound:
        title = say("off_title", name=name)
        await admission.switch_off(connection, binding_id, reason=say(reason), title=title)
    return [binding_id for binding_id, _ in bound]


def _tell(call: Call, switched_off: list[str]) -> None:
    bus = call.services.bus
    for binding_id in switched_off:
        bus.publish(subjects.BINDING_CHANGED, subjects.BindingChanged(), key=binding_id)
    if switched_off:
        bus.publish(subjects.NOTIFY, subjects.Notify(), key=call.user.id)


async def _own(connection: Connection, call: Call) -> AgentRow:
    row = await agents.one(connection, call.user.id, call.path("id"))
    if row is None:
        raise not_found("agent")
    return row


def _values(body: AgentNew | AgentChange) -> dict[str, Any]:
    """The columns that a body sets; names on one line, lists without repetitions."""
    values = {
        name: value for name, value in msgspec.structs.asdict(body).items() if value is not msgspec.UNSET
    }
    values.pop("revision", None)
    if "name" in values:
        values["name"] = clean(values["name"])
    if "model" in values:
        values["model"] = values["model"].strip()
    for name in ("addons", "grants"):
        if name in values:
            values[name] = list(dict.fromkeys(values[name]))
    if len(values.get("instructions", "").encode()) > INSTRUCTIONS_BYTES:
        raise invalid("the instructions have more than 32 KiB", "instructions")
    return values


def _name_taken() -> Exception:
    return conflict("you have an agent of this name already", "name", "name_taken")


ROUTES = [
    Route("GET", "/api/agents", listed, "My agents", "agents"),
    Route("POST", "/api/agents", create, "Make an agent", "agents", status=201),
    Route("GET", "/api/agents/{id}", read, "One of my agents", "agents"),
    Route("PUT", "/api/agents/{id}", change, "Change an agent; what is absent stays", "agents"),
    Route("DELETE", "/api/agents/{id}", remove, "Delete an agent", "agents"),
]
