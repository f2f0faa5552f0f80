"""Decides on stored messages, serially for a lane, and starts turns for what is admitted.

Everything happens in one transaction that holds the lane: the decisions, the erased texts, the sender log, the
messages of the chats, the notices to the senders and the claim of the turns. Source: architecture, step 3.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import structlog

from shared.config.sections import Limits
from shared.domain.records import Binding, Lane, Part, ReplyMode, Turn
from shared.i18n import say
from shared.lifecycle.points import Point, reached
from shared.sdk.ops import Inbound
from shared.store import Connection, admission, deliveries, requests, turns
from shared.store.admission import Decided, LaneFacts, Place, Waiting
from shared.store.requests import Request
from shared.store.turns import NewMessage

log = structlog.get_logger(__name__)

#: messages of a lane that one transaction decides on
BATCH = 100


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on one message: its state and reason, a sentence for the sender, and the text for the agent."""

    state: str
    reason: str = ""
    notice: str = ""
    badge: str = ""
    noticed: bool = False


@dataclass(slots=True)
class Outcome:
    """What a transaction did, for the signals after its commit."""

    started: list[tuple[Turn, Request]] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    planned: bool = False
    switched_off: str = ""
    more: bool = False
    decided: Counter[str] = field(default_factory=Counter)


def judge(facts: LaneFacts, waiting: Waiting, limits: Limits) -> Verdict:
    """The decision on one message, from plain facts.

    The order matters: a person who is not listed learns nothing, not even that the bot exists (ALLOW-06).
    """
    message = waiting.message
    if not waiting.readable:
        return Verdict("refused", "unreadable")
    if not facts.binding.enabled:
        return Verdict("refused", "binding_off")
    if message.migrated_to:
        return Verdict("consumed", "migrated")
    if message.sender.is_bot:
        return Verdict("refused", "bot")
    if not (message.direct or message.addressed):
        return Verdict("unaddressed", "not_addressed")
    badge = listed_as(facts.binding, message)
    if not badge:
        return Verdict("refused", "not_listed")
    if not facts.owner_may:
        return Verdict("refused", "owner_off")
    if not facts.has_agent or not facts.has_model:
        return Verdict("refused", "no_agent" if not facts.has_agent else "no_model")
    if waiting.recent >= limits.sender_per_minute:
        told = "" if waiting.noticed else say("too_many_messages", limit=limits.sender_per_minute)
        return Verdict("refused", "rate", told, noticed=True)
    if len(message.text) > limits.message_chars:
        return Verdict("refused", "too_long", say("message_too_long", limit=limits.message_chars))
    return _judge_content(message, badge)


def _judge_content(message: Inbound, badge: str) -> Verdict:
    if not message.text.strip():
        if message.unsupported or message.files:
            return Verdict("consumed", "unsupported", say("only_text"))
        return Verdict("consumed", "empty", say("empty_message"))
    return Verdict("admitted", badge=badge, notice=say("files_not_read") if message.files else "")


def listed_as(binding: Binding, message: Inbound) -> str:
    """How the allowlist admits the sender: `listed`, `channel`, `anyone`, or empty for not at all.

    Entries are user IDs, chat IDs or @names without case; a display name never matches (ALLOW-03).
    """
    entries = {entry.strip().lower() for entry in binding.allow}
    if message.sender.id.lower() in entries:
        return "listed"
    if message.sender.handle and f"@{message.sender.handle}".lower() in entries:
        return "listed"
    if message.chat.lower() in entries:
        return "channel"
    return "anyone" if binding.accept_any else ""


async def admit(
    connection: Connection,
    lanes: Sequence[Lane],
    *,
    holder: str,
    limits: Limits,
    claim: bool,
    history: int,
    taken: Callable[[Lane, str], None],
) -> dict[Lane, Outcome]:
    """Decide on everything that waits in some lanes. `claim` lets this frontend take the chats that have no turn.

    `taken` hears of the lane and the thread of each admitted message as soon as it is judged.

    The statements are the same for one lane and for many; lanes are locked in one order by everybody.
    """
    outcomes = {lane: Outcome() for lane in lanes}
    facts = await admission.lock_lanes(connection, lanes)
    judged: list[_Judged] = []
    for lane, waiting in (await admission.waiting(connection, list(facts), limit=BATCH)).items():
        outcomes[lane].more = len(waiting) == BATCH
        judged += [_Judged(lane, facts[lane], *pair) for pair in _judge_all(facts[lane], waiting, limits)]
    if not judged:
        return outcomes
    for entry in judged:
        outcomes[entry.lane].decided[entry.verdict.reason or entry.verdict.state] += 1
        if entry.verdict.state == "admitted":
            taken(entry.lane, entry.waiting.message.thread)
    await _find_chats(connection, judged)
    await admission.write_decisions(connection, [entry.decided() for entry in judged])
    await reached(Point.ADMISSION_AFTER)
    await _append(connection, judged, holder if claim else "", outcomes, history)
    for lane in facts:
        await _switch_off_if_unusable(
            connection, facts[lane], [j for j in judged if j.lane == lane], outcomes[lane]
        )
    return outcomes


@dataclass(slots=True)
class _Judged:
    """One message on its way through an admission."""

    lane: Lane
    facts: LaneFacts
    waiting: Waiting
    verdict: Verdict
    chat_id: str | None = None

    def decided(self) -> Decided:
        verdict = self.verdict
        return Decided(self.lane, self.waiting, verdict.state, verdict.reason, self.chat_id, verdict.noticed)


def _judge_all(facts: LaneFacts, waiting: list[Waiting], limits: Limits) -> list[tuple[Waiting, Verdict]]:
    """Judge in order; what is admitted in this batch counts towards the rate of what follows."""
    verdicts: list[tuple[Waiting, Verdict]] = []
    admitted: dict[str, int] = {}
    told: set[str] = set()
    for entry in waiting:
        sender = entry.message.sender.id
        known = replace(
            entry,
            recent=entry.recent + admitted.get(sender, 0),
            noticed=entry.noticed or sender in told,
        )
        verdict = judge(facts, known, limits)
        if verdict.state == "admitted":
            admitted[sender] = admitted.get(sender, 0) + 1
        if verdict.noticed:
            told.add(sender)
            # A notice that was not sent now must not put off the next one.
            verdict = Verdict(verdict.state, verdict.reason, verdict.notice, noticed=bool(verdict.notice))
        verdicts.append((known, verdict))
    return verdicts


async def _find_chats(connection: Connection, judged: list[_Judged]) -> None:
    """Give each admitted message its chat, a new one where none is found."""
    admitted = [entry for entry in judged if entry.verdict.state == "admitted"]
    places = {id(entry): _place(entry.facts.binding, entry.waiting.message) for entry in admitted}
    wanted = [(entry.facts.binding, place) for entry in admitted if (place := places[id(entry)]) is not None]
    found = await admission.find_chats(connection, wanted) if wanted else {}
    for entry in admitted:
        binding, message, place = entry.facts.binding, entry.waiting.message, places[id(entry)]
        key = (binding.id, place.key) if place is not None else None
        if key is not None:
            entry.chat_id = found.get(key)
        elif message.reply_to:
            agent = binding.agent_id or ""
            entry.chat_id = await admission.chat_of_message(connection, entry.lane, message.reply_to, agent)
        if entry.chat_id is None:
            entry.chat_id = await admission.make_chat(connection, binding, message, place)
            if key is not None:
                found[key] = entry.chat_id
    windowed = [(b.id, place.key) for b, place in wanted if place.window_minutes]
    if windowed:
        await admission.touch_places(connection, windowed)


def _place(binding: Binding, message: Inbound) -> Place | None:
    """Which chat a message belongs to by the binding's mode; None when only a reply can lead to one.

    A chat belongs to one place of conversation, so what a person says in private never shows in a group.
    """
    if message.thread:
        return Place(f"t:{message.chat}:{message.thread}")
    if binding.conversation == "chat":
        return Place(f"c:{message.chat}")
    if binding.conversation == "thread":
        return None
    window = binding.window_minutes if binding.conversation == "window" else 0
    return Place(f"s:{message.chat}:{message.sender.id}", window)


async def _append(
    connection: Connection, judged: list[_Judged], holder: str, outcomes: dict[Lane, Outcome], history: int
) -> None:
    """Add what was admitted to its chats, claim those that are free, and plan notices and working messages."""
    chats: dict[str, list[_Judged]] = {}
    for entry in judged:
        if entry.chat_id is not None:
            chats.setdefault(entry.chat_id, []).append(entry)
    messages = {
        chat_id: [_chat_message(e.waiting, e.verdict) for e in entries] for chat_id, entries in chats.items()
    }
    if messages and holder:
        await reached(Point.CLAIM_BEFORE)
    started = await turns.start(connection, messages, holder) if messages and holder else []
    for chat_id in messages.keys() - {turn.chat_id for turn in started}:
        await turns.append(connection, chat_id, messages[chat_id], answer=True)
        outcomes[chats[chat_id][0].lane].joined.append(chat_id)
    planned = [(e.lane, _notice(e.waiting.message, e.verdict.notice)) for e in judged if e.verdict.notice]
    for turn in started:
        newest = chats[turn.chat_id][-1]
        message, mode = newest.waiting.message, newest.facts.binding.reply_mode
        planned += [
            (newest.lane, part)
            for part in working_part(turn, message.thread, mode, reply_to=_quoted(message))
        ]
    await deliveries.plan(connection, planned)
    begun = await requests.first_requests(connection, started, history=history) if started else {}
    for turn in started:
        outcomes[chats[turn.chat_id][0].lane].started.append((turn, begun[turn.id]))
    for lane, _ in planned:
        outcomes[lane].planned = True


def _quoted(message: Inbound) -> str:
    """The message that an answer refers to; in a direct chat that goes without saying."""
    return "" if message.direct else message.id


def working_part(turn: Turn, thread: str, mode: ReplyMode, *, reply_to: str = "") -> list[Part]:
    """The working message of a turn, where the reply mode has one (ANS-11, ANS-21)."""
    if mode == "off":
        return []
    text = say("working")
    body = {"text": text, "markup": "", "plain": text}
    return [
        Part(
            "working", "send", body, thread=thread, reply_to=reply_to, chat_id=turn.chat_id, turn_id=turn.id,
            epoch=turn.epoch,
        )
    ]  # fmt: skip


async def begin(
    connection: Connection, lane: Lane | None, head: turns.Head, *, holder: str, mode: ReplyMode
) -> Turn:
    """Claim one locked chat for what it holds unread; `lane` is None for a chat of the web."""
    (turn,) = await turns.start(connection, {head.id: ()}, holder, origin="message" if lane else "web")
    if lane is not None:
        await deliveries.plan(connection, [(lane, part) for part in working_part(turn, head.thread, mode)])
    return turn


async def claim(connection: Connection, chat_id: str, lane: Lane | None, *, holder: str) -> Turn | None:
    """Start a turn for a waiting chat of a binding (`lane`) or of the web; None when there is nothing to do."""
    facts = await admission.lock_lanes(connection, [lane]) if lane is not None else {}
    head = await turns.lock_chat(connection, chat_id, skip_locked=True)
    if head is None or head.turn_id is not None or not head.unread:
        return None
    if lane is None or lane not in facts:
        return await begin(connection, None, head, holder=holder, mode="off")
    return await begin(connection, lane, head, holder=holder, mode=facts[lane].binding.reply_mode)


def _chat_message(entry: Waiting, verdict: Verdict) -> NewMessage:
    message = entry.message
    return NewMessage(
        "user",
        message.text,
        {"message": message.id, "handle": message.sender.handle},
        sender_id=message.sender.id,
        sender_name=message.sender.name[:200],
        badge=verdict.badge,
        inbound_id=entry.id,
    )


def _notice(message: Inbound, text: str) -> Part:
    body = {"text": text, "markup": "", "plain": text}
    return Part("notice", "send", body, thread=message.thread, reply_to=_quoted(message))


async def _switch_off_if_unusable(
    connection: Connection, facts: LaneFacts, judged: list[_Judged], outcome: Outcome
) -> None:
    """An agent that is gone or has no model switches the binding off (OFF-05, OFF-06)."""
    reasons = {entry.verdict.reason for entry in judged} & {"no_agent", "no_model"}
    for reason in reasons:
        title = say("off_title", name=facts.binding.name)
        owner = await admission.switch_off(
            connection, facts.binding.id, reason=say(f"off_{reason}"), title=title
        )
        outcome.switched_off = outcome.switched_off or (owner or "")
