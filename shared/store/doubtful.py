"""Parts that failed or may not have been seen: listed for the owner of their binding, sent again, or dismissed.

A part leaves doubt once: both ways out are a compare-and-set on its state, so of two clicks one does something.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.domain.records import Action, Lane, Part, Purpose
from shared.store import deliveries
from shared.store.database import Connection


@dataclass(frozen=True, slots=True)
class Doubt:
    """A part with its outcome. `binding_off` says why its binding is off, in words, and is None while it is on."""

    id: int
    binding_id: str
    platform_chat: str
    thread: str
    reply_to: str
    chat_id: str | None
    turn_id: int | None
    epoch: int
    part: int
    purpose: Purpose
    action: Action
    body: dict[str, Any]
    state: str
    error: dict[str, Any]
    since: datetime
    binding_off: str | None

    @property
    def lane(self) -> Lane:
        return Lane(self.binding_id, self.platform_chat)


async def listed(connection: Connection, binding_id: str, *, before: int, limit: int) -> list[Doubt]:
    """The newest first; `before` is the ID of the last one of the page before, 0 for the first page."""
    return _doubts(await connection.fetch(_LIST, binding_id, before, limit))


async def one(connection: Connection, binding_id: str, delivery_id: int) -> Doubt | None:
    """A part of a binding in whatever state it is."""
    found = _doubts(await connection.fetch(_ONE, binding_id, delivery_id))
    return found[0] if found else None


async def send_again(connection: Connection, doubt: Doubt) -> int | None:
    """Plan the same body as a new message at the end of its lane; its ID, or None when it is in doubt no more.

    What is unknown may not be edited, so a part of an answer goes as a send too. The caller holds the lane.
    """
    if not await _leave(connection, doubt, "resent"):
        return None
    part = Part(
        doubt.purpose,
        "send",
        doubt.body,
        thread=doubt.thread,
        reply_to=doubt.reply_to,
        chat_id=doubt.chat_id,
        turn_id=doubt.turn_id,
        epoch=doubt.epoch,
        part=doubt.part,
    )
    (planned,) = await deliveries.plan(connection, [(doubt.lane, part)])
    await connection.execute("UPDATE deliveries SET resent_as = $2 WHERE id = $1", doubt.id, planned)
    return planned


async def dismiss(connection: Connection, doubt: Doubt) -> bool:
    """Take a part from the list; False when it is in doubt no more."""
    return await _leave(connection, doubt, "dismissed")


async def _leave(connection: Connection, doubt: Doubt, state: str) -> bool:
    return bool(await connection.fetchval(_LEAVE, doubt.id, state))


def _doubts(rows: Sequence[Any]) -> list[Doubt]:
    return [Doubt(**{**row, "error": row["error"] or {}}) for row in rows]


_SELECT = """
SELECT d.id, d.binding_id, d.platform_chat, d.thread, d.reply_to, d.chat_id, d.turn_id, d.epoch, d.part, d.purpose,
  d.action, d.body, d.state, d.error, coalesce(d.finished_at, d.planned_at) AS since,
  CASE WHEN NOT b.enabled THEN b.off_reason END AS binding_off
FROM deliveries d JOIN bindings b ON b.id = d.binding_id
"""

_LIST = f"""
{_SELECT} WHERE d.binding_id = $1 AND d.state IN ('failed', 'unknown') AND ($2::bigint = 0 OR d.id < $2)
ORDER BY d.id DESC LIMIT $3
"""

_ONE = f"{_SELECT} WHERE d.binding_id = $1 AND d.id = $2"

_LEAVE = """
UPDATE deliveries SET state = $2 WHERE id = $1 AND state IN ('failed', 'unknown') RETURNING true
"""
