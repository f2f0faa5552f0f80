"""How an empty installation gets its first administrator, and a demo its sample records."""

from dataclasses import dataclass

from shared.domain.ids import new_id
from shared.sealing import KeyRing, SealBroken
from shared.store import Connection, Database, agents, audit, bindings, people, sessions
from shared.store.bindings import token_record

ADMIN = "admin"
_INSTRUCTIONS = (
    "You are a friendly assistant who answers people in a messaging chat. "
    "Keep answers short and clear, and say so when you do not know something."
)


@dataclass(frozen=True, slots=True)
class Records:
    """What the operator works with. `sign_in_token` belongs into `setup_url`; it is empty once a password is set."""

    api_key: str
    sign_in_token: str


@dataclass(frozen=True, slots=True)
class DemoRecords(Records):
    """What the demo works with besides."""

    agent_id: str
    binding_id: str


def setup_url(base_url: str, token: str) -> str:
    """The address of the page on which a one-time link is used."""
    return f"{base_url.rstrip('/')}/setup?token={token}"


async def first_sign_in_link(database: Database, base_url: str) -> str | None:
    """A one-time link that makes the first administrator; None when somebody can sign in already.

    It is a secret for the eyes of the operator. Several frontends may each make one: the first that is used counts.
    """
    async with database.transaction() as connection:
        if await people.anybody_can_sign_in(connection):
            return None
        user_id = await people.admin_without_password(connection)
        return setup_url(base_url, await sessions.add_link(connection, user_id))


async def set_first_password(database: Database, token: str, *, name: str, password_hash: str) -> str | None:
    """Use a one-time link: the ID of the administrator who can sign in now; None when the link does not count.

    A link for nobody in particular makes the account, once: with two such links the second makes none.
    """
    async with database.transaction() as connection:
        await people.lock_first_admin(connection)
        link = await sessions.use_link(connection, token)
        if link is None or (link.user_id is None and await people.anybody_can_sign_in(connection)):
            return None
        user_id = link.user_id
        if user_id is None:
            user_id = await people.add(connection, name=name, role="admin", password_hash=password_hash)
        else:
            await people.set_password(connection, user_id, password_hash)
        await audit.write(connection, user_id, "user.setup", user_id)
        return user_id


async def bootstrap(database: Database, *, name: str = "up") -> Records:
    """An administrator and an API key called `name`, a new one each time, since only its hash is kept."""
    async with database.transaction() as connection:
        _, key, token = await _operator(connection, name)
    return Records(key, token)


async def bootstrap_demo(
    database: Database, ring: KeyRing, *, telegram_token: str, model: str, name: str = "demo"
) -> DemoRecords:
    """An administrator, an API key, a sample agent and a sample Telegram binding; made once, found again later.

    The key is a new one each time, since only its hash is kept.
    """
    async with database.transaction() as connection:
        user_id, key, token = await _operator(connection, name)
        agent_id = await _agent(connection, user_id, name, model)
        binding_id = await _binding(connection, ring, user_id, agent_id, name, telegram_token)
    return DemoRecords(key, token, agent_id, binding_id)


async def _operator(connection: Connection, key_name: str) -> tuple[str, str, str]:
    """The administrator of this machine's operator, a new API key, and a one-time link until a password is set."""
    await people.lock_first_admin(connection)
    admin = await people.named(connection, ADMIN)
    user_id = (
        admin.id if admin else await people.add(connection, name=ADMIN, role="admin", password_hash=None)
    )
    await sessions.remove_keys_named(connection, user_id, key_name)
    _, key = await sessions.add_key(connection, user_id, key_name)
    signs_in = admin is not None and admin.has_password
    return user_id, key, "" if signs_in else await sessions.add_link(connection, user_id)


async def _agent(connection: Connection, user_id: str, name: str, model: str) -> str:
    found = await agents.named(connection, user_id, name)
    if found is None:
        found = await agents.add(
            connection, user_id, {"name": name, "model": model, "instructions": _INSTRUCTIONS}
        )
    return found.id


async def _binding(
    connection: Connection, ring: KeyRing, user_id: str, agent_id: str, name: str, token: str
) -> str:
    """The sample binding, with this token; another bot than before is another account."""
    rows = await bindings.listed(connection, user_id)
    found = next((row for row in rows if row.name == name and row.kind == "telegram"), None)
    account = {"account_id": token.partition(":")[0], "account_name": name}
    if found is None:
        binding_id = new_id("bnd")
        values = {"kind": "telegram", "addon": "telegram", "name": name, "agent_id": agent_id}
        await bindings.add(
            connection, user_id, binding_id, values | account | {"enabled": True, "accept_any": True}
        )
    else:
        binding_id = found.id
        stored = await bindings.access(connection, binding_id)
        if stored is not None and _opens_to(ring, stored.sealed, binding_id, token):
            return binding_id
        await bindings.change(connection, binding_id, account)
        if found.account_id != account["account_id"]:
            await bindings.start_over(connection, binding_id)
    await bindings.set_token(connection, binding_id, ring.seal(token, record=token_record(binding_id)))
    return binding_id


def _opens_to(ring: KeyRing, sealed: str, binding_id: str, token: str) -> bool:
    try:
        return bool(sealed) and ring.open(sealed, record=token_record(binding_id)) == token
    except SealBroken:
        return False
