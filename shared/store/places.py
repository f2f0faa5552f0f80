"""Which chat a place of conversation leads to, inside the transaction that holds its lane."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from shared.domain.ids import new_id
from shared.domain.records import Binding, Lane
from shared.sdk.ops import Inbound
from shared.store.database import Connection


@dataclass(frozen=True, slots=True)
class Place:
    """Which chat a message belongs to: `key` names it; `window_minutes` above 0 ends it after a silence."""

    key: str
    window_minutes: int = 0


async def find_chats(
    connection: Connection, wanted: Sequence[tuple[Binding, Place]]
) -> dict[tuple[str, str], str]:
    """The chats that places lead to now, with the agents that the bindings have now, by (binding, key)."""
    rows = await connection.fetch(
        _FIND_CHATS,
        [binding.id for binding, _ in wanted],
        [place.key for _, place in wanted],
        [binding.agent_id or "" for binding, _ in wanted],
        [place.window_minutes for _, place in wanted],
    )
    return {(row["binding_id"], row["key"]): row["chat_id"] for row in rows}


async def touch_places(connection: Connection, places: Sequence[tuple[str, str]]) -> None:
    """Note that people wrote in these places (binding, key) now, where a silence would end the chat."""
    await connection.execute(_TOUCH_PLACES, [binding for binding, _ in places], [key for _, key in places])


async def forget(connection: Connection, places: Sequence[tuple[str, str]]) -> None:
    """Let these places (binding, key) lead to no chat: the next message there makes a new one. Chats stay."""
    await connection.execute(_FORGET, [binding for binding, _ in places], [key for _, key in places])


async def answering(connection: Connection, chats: Collection[str]) -> set[str]:
    """Those of the chats in which a turn runs or a message waits for one. They are locked; the caller has the lanes."""
    return {row["id"] for row in await connection.fetch(_LOCK_CHATS, list(chats)) if row["answering"]}


async def chat_of_message(connection: Connection, lane: Lane, message_id: str, agent_id: str) -> str | None:
    """The chat that a message of the lane belongs to: one of the bot's answers, or one that a person wrote."""
    chat: str | None = await connection.fetchval(
        _CHAT_OF_MESSAGE, lane.binding_id, lane.platform_chat, message_id, agent_id
    )
    return chat


async def make_chat(connection: Connection, binding: Binding, message: Inbound, place: Place | None) -> str:
    """A new chat of the binding's owner, and the place that leads to it from now on."""
    chat_id = new_id("cht")
    title = message.chat_name if not message.direct and message.chat_name else message.sender.name
    await connection.execute(
        _MAKE_CHAT,
        chat_id,
        binding.user_id,
        binding.agent_id,
        binding.id,
        binding.kind,
        message.chat,
        message.thread,
        message.direct,
        message.chat_name[:200],
        message.link if message.link.startswith("https://") and len(message.link) <= 512 else "",
        (title or binding.name)[:200],
    )
    if place is not None:
        await connection.execute(_SET_PLACE, binding.id, place.key, chat_id, binding.agent_id or "")
    return chat_id


_FIND_CHATS = """
SELECT p.binding_id, p.key, p.chat_id
FROM unnest($1::text[], $2::text[], $3::text[], $4::integer[]) AS w(binding_id, key, agent_id, window_minutes)
JOIN sender_chats p ON p.binding_id = w.binding_id AND p.key = w.key AND p.agent_id = w.agent_id
WHERE w.window_minutes = 0 OR p.last_at > now() - make_interval(mins => w.window_minutes)
"""

_TOUCH_PLACES = """
UPDATE sender_chats p SET last_at = now() FROM unnest($1::text[], $2::text[]) AS w(binding_id, key)
WHERE p.binding_id = w.binding_id AND p.key = w.key
"""

_FORGET = """
DELETE FROM sender_chats p USING unnest($1::text[], $2::text[]) AS w(binding_id, key)
WHERE p.binding_id = w.binding_id AND p.key = w.key
"""

_LOCK_CHATS = """
SELECT id, turn_id IS NOT NULL OR last_user_seq > covered_seq AS answering FROM chats WHERE id = ANY($1::text[])
ORDER BY id FOR UPDATE
"""

_CHAT_OF_MESSAGE = """
SELECT found.chat_id FROM (
  SELECT chat_id FROM deliveries WHERE binding_id = $1 AND platform_chat = $2 AND platform_id = $3
  UNION ALL
  SELECT i.chat_id FROM inbound i JOIN bindings b ON b.id = i.binding_id AND b.account_epoch = i.account_epoch
  WHERE i.binding_id = $1 AND i.platform_chat = $2 AND i.message_key = 'm:' || $3
) found JOIN chats c ON c.id = found.chat_id AND c.agent_id = $4 LIMIT 1
"""

_MAKE_CHAT = """
INSERT INTO chats (id, user_id, agent_id, binding_id, kind, platform_chat, thread, direct, chat_name, link, title)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
"""

_SET_PLACE = """
INSERT INTO sender_chats (binding_id, key, chat_id, agent_id) VALUES ($1, $2, $3, $4)
ON CONFLICT (binding_id, key) DO UPDATE SET chat_id = $3, agent_id = $4, last_at = now()
"""
