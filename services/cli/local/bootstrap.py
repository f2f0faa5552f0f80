import hashlib, secrets
from dataclasses import dataclass
from shared.domain.ids import new_id
from shared.store import bindings


@dataclass(frozen=True, slots=True)
class Records:
    api_key: str
    sign_in_token: str


@dataclass(frozen=True, slots=True)
class DemoRecords:
    api_key: str
    sign_in_token: str
    agent_id: str
    binding_id: str


async def bootstrap(database):
    key, token = "tl_" + secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    user = await database.fetchval("SELECT id FROM users WHERE role='admin' ORDER BY created_at LIMIT 1")
    if user is None:
        user = new_id("usr")
        await database.execute("INSERT INTO users (id, name, role) VALUES ($1, 'admin', 'admin')", user)
    await database.execute(
        "INSERT INTO api_keys (id, user_id, name, key_hash) VALUES ($1,$2,'up',$3)",
        new_id("key"),
        user,
        hashlib.sha256(key.encode()).digest(),
    )
    await database.execute(
        "INSERT INTO sign_in_links (token_hash, user_id, expires_at) VALUES ($1,$2, now()+interval '1 hour')",
        hashlib.sha256(token.encode()).digest(),
        user,
    )
    return Records(key, token)


async def bootstrap_demo(database, ring, *, telegram_token, model):
    r = await bootstrap(database)
    user = await database.fetchval("SELECT id FROM users WHERE role='admin' ORDER BY created_at LIMIT 1")
    agent, binding = new_id("agt"), new_id("bnd")
    await database.execute(
        "INSERT INTO agents (id,user_id,name,model) VALUES ($1,$2,$3,$4)",
        agent,
        user,
        "Demo " + agent[-4:],
        model,
    )
    await database.execute(
        "INSERT INTO bindings (id,user_id,agent_id,kind,addon,name,enabled,accept_any) VALUES ($1,$2,$3,'telegram','telegram','Demo',true,true)",
        binding,
        user,
        agent,
    )
    sealed = ring.seal(telegram_token, record=bindings.token_record(binding))
    await database.execute(
        "INSERT INTO binding_secrets (binding_id,name,sealed) VALUES ($1,'token',$2)", binding, sealed
    )
    await database.execute("INSERT INTO binding_cursor (binding_id) VALUES ($1)", binding)
    return DemoRecords(r.api_key, r.sign_in_token, agent, binding)
