"""What a seed leaves behind: what people and the platform have seen, and what is stored at the end."""

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tests.chaos.rack import Rack
from tests.chaos.workload import Bot, Step

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A message of a chat as its people see it; times are seconds since the epoch."""

    id: str
    from_bot: bool
    text: str
    at: float
    edited_at: float = 0.0


@dataclass(slots=True)
class Chat:
    """One chat of one bot: `said` to it, `seen` in it in order, and the rows about it."""

    binding: str
    id: str
    said: Sequence[Step]
    seen: Sequence[Seen]
    inbound: list[Row] = field(default_factory=list)
    messages: list[Row] = field(default_factory=list)
    turns: list[Row] = field(default_factory=list)
    deliveries: list[Row] = field(default_factory=list)
    unread: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """Something that was done to the cluster. `explains` says whether a reply of the platform may be lost by it."""

    at: float
    what: str
    explains: bool = False


@dataclass(slots=True)
class Evidence:
    """All that the checker reads. `asked` are the model's requests, as (time, text), `polls` (binding, offset) as they came.

    `effects` counts what the write tool did for each operation; `listed` are the doubtful deliveries that the owner of
    the binding is shown, and `notified` the bindings about which their owner has a notification. `positions` are read positions before and after.
    """

    seed: int
    chats: list[Chat]
    asked: list[tuple[float, str]] = field(default_factory=list)
    operations: list[Row] = field(default_factory=list)
    effects: Counter[str] = field(default_factory=Counter)
    listed: frozenset[int] = frozenset()
    notified: frozenset[str] = frozenset()
    polls: Sequence[tuple[str, int]] = ()
    cursors: list[Row] = field(default_factory=list)
    positions: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def read_by_model(self, word: str, *, until: float = float("inf")) -> bool:
        """Whether a request of that time held this word."""
        return any(word in text for at, text in self.asked if at <= until)


@dataclass(frozen=True, slots=True)
class Before:
    """Where the logs of the simulators stood when the seed began, and the read positions then."""

    model: int
    telegram: int
    positions: Mapping[str, int]


async def before(rack: Rack) -> Before:
    far = 10**9
    # One that nobody has read stands for all that follow: each seed has to bring its own.
    await rack.fetch("UPDATE notifications SET read_at = now() WHERE read_at IS NULL RETURNING id")
    model = (await rack.sim.get("model/calls", since=far))["next"]
    telegram = (await rack.sim.get("telegram/calls", since=far))["next"]
    return Before(model, telegram, await _positions(rack))


async def _positions(rack: Rack) -> dict[str, int]:
    rows = await rack.fetch("SELECT binding_id, position FROM binding_cursor WHERE position <> ''")
    return {row["binding_id"]: int(row["position"]) for row in rows}


async def collect(
    rack: Rack, seed: int, steps: Sequence[Step], start: Before, events: list[Event]
) -> Evidence:
    """Read everything, once nothing moves any more."""
    places = {step.chat: step.bot for step in steps}
    chats = [
        Chat(bot.binding, str(chat), [s for s in steps if s.chat == chat], await _seen(rack, bot, chat))
        for chat, bot in sorted(places.items())
    ]
    await _add_rows(rack, chats)
    calls = await rack.sim.calls("model", since=start.model)
    polls = await rack.sim.calls(since=start.telegram)
    polled = {bot.token.partition(":")[0]: bot.binding for bot in places.values()}
    after = await _positions(rack)
    turns = [row["id"] for chat in chats for row in chat.turns]
    bindings = sorted({chat.binding for chat in chats})
    return Evidence(
        seed,
        chats,
        asked=[(call["at"], str(call["params"].get("messages"))) for call in calls],
        operations=await _rows(rack, "SELECT * FROM operations WHERE turn_id = ANY($1::bigint[])", turns),
        effects=_effects(rack.folder.path),
        listed=frozenset([id_ for binding in bindings for id_ in await _listed(rack, binding)]),
        notified=frozenset(
            row["binding_id"]
            for row in await rack.fetch(
                "SELECT DISTINCT binding_id FROM notifications WHERE sort = 'undelivered' AND read_at IS NULL"
            )
        ),
        polls=[
            (polled[str(c["bot"])], int(c["params"].get("offset") or 0))
            for c in polls
            if c["method"] == "getUpdates" and str(c["bot"]) in polled
        ],
        cursors=await _rows(
            rack,
            "SELECT *, extract(epoch FROM claimed_at)::float8 AS claimed FROM binding_cursor "
            "WHERE binding_id = ANY($1::text[])",
            bindings,
        ),
        positions={b: (start.positions.get(b, 0), after.get(b, 0)) for b in bindings},
        events=events,
    )


async def _seen(rack: Rack, bot: Bot, chat: int) -> list[Seen]:
    if bot.kind == "probe-push":
        return _seen_at_probe(rack, bot.binding, str(chat))
    page = await rack.sim.get("telegram/messages", chat=chat, bot=bot.token)
    return [
        Seen(str(m["id"]), m["from_bot"], m["text"], m["at"], m.get("edited_at") or 0.0)
        for m in page["messages"]
        if not m["deleted"]
    ]


def _seen_at_probe(rack: Rack, binding: str, chat: str) -> list[Seen]:
    """What people wrote there, and the messages of the bot as they look at last."""
    seen = [
        Seen(message.id, from_bot=False, text=message.text, at=at)
        for at, where, message in rack.arrived
        if where == binding and message.chat == chat
    ]
    first: dict[str, float] = {}
    last: dict[str, Seen] = {}
    journal = rack.probe_data / "shown.jsonl"
    for line in journal.read_bytes().splitlines() if journal.exists() else ():
        shown = msgspec.json.decode(line)
        message = shown["message"]
        if shown["binding"] == binding and message["chat"] == chat:
            at = first.setdefault(message["id"], shown["at"])
            last[message["id"]] = Seen(message["id"], True, message["text"], at, shown["at"])
    return sorted([*seen, *last.values()], key=lambda one: one.at)


_ROWS = {
    "inbound": """SELECT *, extract(epoch FROM received_at)::float8 AS at FROM inbound
        WHERE binding_id = ANY($1::text[]) AND platform_chat = ANY($2::text[]) ORDER BY id""",
    "messages": """SELECT c.binding_id, c.platform_chat, m.*, extract(epoch FROM m.created_at)::float8 AS at
        FROM messages m JOIN chats c ON c.id = m.chat_id
        WHERE c.binding_id = ANY($1::text[]) AND c.platform_chat = ANY($2::text[]) ORDER BY m.chat_id, m.seq""",
    "turns": """SELECT c.platform_chat, t.*, extract(epoch FROM t.started_at)::float8 AS at,
          extract(epoch FROM t.ended_at)::float8 AS ended
        FROM turns t JOIN chats c ON c.id = t.chat_id
        WHERE c.binding_id = ANY($1::text[]) AND c.platform_chat = ANY($2::text[]) ORDER BY t.id""",
    "deliveries": """SELECT *, extract(epoch FROM coalesce(finished_at, planned_at))::float8 AS at FROM deliveries
        WHERE binding_id = ANY($1::text[]) AND platform_chat = ANY($2::text[]) ORDER BY seq""",
}


async def _rows(rack: Rack, query: str, *args: Any) -> list[Row]:
    return [dict(row) for row in await rack.fetch(query, *args)]


async def _add_rows(rack: Rack, chats: list[Chat]) -> None:
    bindings, ids = sorted({chat.binding for chat in chats}), [chat.id for chat in chats]
    by_place = {(chat.binding, chat.id): chat for chat in chats}
    for name, query in _ROWS.items():
        found: dict[tuple[str, str], list[Row]] = {}
        for row in await rack.fetch(query, bindings, ids):
            found.setdefault((row["binding_id"], row["platform_chat"]), []).append(dict(row))
        for place, rows in found.items():
            setattr(by_place[place], name, rows)
    unread = await rack.fetch(
        "SELECT binding_id, platform_chat FROM chats WHERE (turn_id IS NOT NULL OR last_user_seq > covered_seq) "
        "AND binding_id = ANY($1::text[]) AND platform_chat = ANY($2::text[])",
        bindings,
        ids,
    )
    for row in unread:
        by_place[row["binding_id"], row["platform_chat"]].unread = True


async def _listed(rack: Rack, binding: str) -> list[int]:
    """Every doubtful delivery that the API shows for a binding, page by page."""
    found: list[int] = []
    path = f"/api/chats/connectors/{binding}/doubtful"
    while True:
        query = f"?limit=100&before={found[-1]}" if found else "?limit=100"
        page = (await rack.api("GET", path + query))["parts"]
        fresh = [int(entry["id"]) for entry in page if int(entry["id"]) not in found]
        if not fresh:
            return found
        found += fresh


def _effects(folder: Path) -> Counter[str]:
    """What the probe's journal says it did, over all its starts."""
    counts: Counter[str] = Counter()
    for journal in folder.glob("addons/**/operations.log"):
        with contextlib.suppress(OSError):
            for line in journal.read_text().splitlines():
                noted, operation = line.split(" ", 1)
                counts[operation] += noted == "effect"
    return counts
