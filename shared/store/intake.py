"""From a poll to stored messages: the read position and the messages it confirms, in one statement."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from shared.sdk.ops import Inbound
from shared.store.cursors import Cursor
from shared.store.database import Connection
from shared.store.jsonb import encoded, without_null


@dataclass(frozen=True, slots=True)
class Stored:
    """`moved` is false when the position was not the one polled from, or another term claimed it: nothing happened.

    `chats` are the platform chats that have something new; `duplicates` were stored before.
    """

    moved: bool
    chats: tuple[str, ...]
    new: int
    duplicates: int


async def store_poll(
    connection: Connection, cursor: Cursor, *, term: int, position: str, messages: Sequence[Inbound]
) -> Stored:
    """Move the read position and keep the messages, both or neither (architecture, step 2).

    The guard is on the written row itself: the position polled from, the account, and the term that claimed it.
    What is not addressed to the bot is kept without its text, so that it can be counted but not read.
    """
    row = await connection.fetchrow(
        _STORE_POLL,
        cursor.binding_id,
        cursor.account_epoch,
        term,
        cursor.position,
        position,
        [without_null(m.chat) for m in messages],
        [message_key(m) for m in messages],
        [without_null(m.thread) for m in messages],
        [without_null(m.sender.id) for m in messages],
        [_body(m) for m in messages],
    )
    chats = tuple(row["chats"] or ())
    return Stored(
        bool(row["moved"]), chats, row["stored"], len(messages) - row["stored"] if row["moved"] else 0
    )


async def store_pushed(connection: Connection, binding_id: str, message: Inbound) -> bool:
    """Keep one message that an add-on pushed; False when it was stored before, or the binding is gone or off."""
    return bool(
        await connection.fetchval(
            _STORE_PUSHED,
            binding_id,
            without_null(message.chat),
            message_key(message),
            without_null(message.thread),
            without_null(message.sender.id),
            _body(message),
        )
    )


async def waiting_lanes(connection: Connection, *, older_than: float, limit: int) -> list[tuple[str, str]]:
    """(binding, platform chat) that hold messages nobody has decided on for `older_than` seconds: the sweep."""
    rows = await connection.fetch(_WAITING_LANES, older_than, limit)
    return [(row["binding_id"], row["platform_chat"]) for row in rows]


async def oldest_waiting(connection: Connection) -> float:
    """Age in seconds of the oldest message that is not answered or refused yet; 0 when none waits."""
    return float(await connection.fetchval(_OLDEST_WAITING) or 0.0)


def message_key(message: Inbound) -> str:
    """What makes a message the same one when it comes again: its ID, else the ID of the event that carried it."""
    return without_null(f"m:{message.id}" if message.id else f"d:{message.delivery_id}")


def _body(message: Inbound) -> str:
    kept = (
        message
        if message.addressed or message.direct
        else msgspec.structs.replace(message, text="", files=[])
    )
    return encoded(msgspec.to_builtins(kept))


_STORE_POLL = """
WITH arrived AS (
  SELECT a.* FROM unnest($6::text[], $7::text[], $8::text[], $9::text[], $10::text[])
    WITH ORDINALITY AS a(platform_chat, message_key, thread, sender_id, body, n)
), moved AS (
  UPDATE binding_cursor SET position = $5, moved_at = clock_timestamp()
  WHERE binding_id = $1 AND account_epoch = $2 AND term = $3 AND position = $4
  RETURNING binding_id
), made AS (
  INSERT INTO lanes (binding_id, platform_chat)
  SELECT DISTINCT m.binding_id, a.platform_chat FROM moved m, arrived a
  ON CONFLICT DO NOTHING
), stored AS (
  INSERT INTO inbound
    (binding_id, account_epoch, platform_chat, message_key, thread, sender_id, body, term, received_at)
  SELECT m.binding_id, $2, a.platform_chat, a.message_key, a.thread, a.sender_id, a.body::jsonb, $3, clock_timestamp()
  FROM moved m, arrived a ORDER BY a.n
  ON CONFLICT DO NOTHING
  RETURNING platform_chat
)
SELECT EXISTS (SELECT FROM moved) AS moved,
  (SELECT array_agg(DISTINCT platform_chat) FROM stored) AS chats,
  (SELECT count(*) FROM stored) AS stored
"""

# The binding is held against a delete, and its read position against a claim: the term of the row is the one that holds
# it, whoever claims next.
_STORE_PUSHED = """
WITH b AS (
  SELECT id, account_epoch FROM bindings WHERE id = $1 AND enabled FOR KEY SHARE
), heard AS (
  UPDATE binding_cursor c SET heard_at = clock_timestamp() FROM b WHERE c.binding_id = b.id
  RETURNING b.id, b.account_epoch, c.term
), made AS (
  INSERT INTO lanes (binding_id, platform_chat) SELECT id, $2 FROM heard ON CONFLICT DO NOTHING
)
INSERT INTO inbound
  (binding_id, account_epoch, platform_chat, message_key, thread, sender_id, body, term, received_at)
SELECT id, account_epoch, $2, $3, $4, $5, $6::text::jsonb, term, clock_timestamp() FROM heard
ON CONFLICT DO NOTHING
RETURNING true
"""

_WAITING_LANES = """
SELECT binding_id, platform_chat FROM inbound WHERE state = 'new'
GROUP BY binding_id, platform_chat
HAVING min(received_at) < now() - make_interval(secs => $1::double precision)
ORDER BY min(id) LIMIT $2
"""

_OLDEST_WAITING = """
SELECT extract(epoch FROM now() - least(
  (SELECT min(received_at) FROM inbound WHERE state = 'new'),
  (SELECT min(waiting_since) FROM chats WHERE last_user_seq > covered_seq)))::double precision
"""
