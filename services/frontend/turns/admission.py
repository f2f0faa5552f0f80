"""Decides on stored messages, serially for a lane, and starts turns for what is admitted.

Everything happens in one transaction that holds the lane: the decisions, the erased texts, the sender log, the
messages of the chats, the notices to the senders and the claim of the turns. Source: architecture, step 3.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import structlog

from services.frontend.turns import commands
from services.frontend.turns.places import place_of
from services.frontend.turns.verdicts import Verdict, judge_all
from shared.config.sections import Limits
from shared.domain.records import Lane, Part, ReplyMode, Turn
from shared.i18n import say
from shared.lifecycle.points import Point, reached
from shared.sdk.ops import Inbound
from shared.store import Connection, admission, deliveries, places, requests, turns
from shared.store.admission import Decided, LaneFacts, Waiting
from shared.store.places import Place
from shared.store.requests import Request
from shared.store.turns import NewMessage

log = structlog.get_logger(__name__)

#: messages of a lane that one transaction decides on
BATCH = 100


@dataclass(slots=True)
class Outcome:
    """What a transaction did, for the signals after its commit. `left` are the chats that places have left for new
    ones, without an ID where there was none yet.
    """

    started: list[tuple[Turn, Request]] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    planned: bool = False
    switched_off: str = ""
    more: bool = False
    decided: Counter[str] = field(default_factory=Counter)


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
        judged += [
            _Judged(lane, facts[lane], entry, verdict, place_of(facts[lane].binding, entry.message))
            for entry, verdict in judge_all(facts[lane], waiting, limits)
        ]
    if not judged:
        return outcomes
    for entry in judged:
        outcomes[entry.lane].decided[entry.verdict.reason or entry.verdict.state] += 1
        if entry.verdict.state == "admitted":
            taken(entry.lane, entry.waiting.message.thread)
    await _leave_chats(connection, judged, outcomes)
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
    place: Place | None
    chat_id: str | None = None

    @property
    def key(self) -> tuple[str, str] | None:
        """The place in the store; None when only a reply can lead to a chat."""
        return (self.facts.binding.id, self.place.key) if self.place is not None else None

    def decided(self) -> Decided:
        verdict = self.verdict
        return Decided(self.lane, self.waiting, verdict.state, verdict.reason, self.chat_id, verdict.noticed)


async def _leave_chats(connection: Connection, judged: list[_Judged], outcomes: dict[Lane, Outcome]) -> None:
    """Carry out the commands for new chats, except where an answer is under way: a turn never loses its chat (NEW-22).

    What was admitted before the command in the same batch has no turn yet, and will get one.
    """
    asked = [(n, entry) for n, entry in enumerate(judged) if entry.verdict.command]
    if not asked:
        return
    wanted = [(entry.facts.binding, entry.place) for _, entry in asked if entry.place is not None]
    found = await places.find_chats(connection, wanted)
    busy = await places.answering(connection, found.values())
    leaving = []
    for n, entry in asked:
        before = {other.key for other in judged[:n] if other.verdict.state == "admitted"}
        key, message = entry.key, entry.waiting.message
        assert key is not None, "a command without a place has met its objection"
        if key in before or found.get(key) in busy:
            entry.verdict = replace(entry.verdict, notice=commands.later(entry.verdict.command))
            continue
        entry.verdict = replace(entry.verdict, notice=commands.confirmation(entry.facts.binding, message))
        outcomes[entry.lane].left.append(found.get(key, ""))
        leaving.append(key)
    await places.forget(connection, leaving)


async def _find_chats(connection: Connection, judged: list[_Judged]) -> None:
    """Give each admitted message its chat, a new one where none is found."""
    admitted = [entry for entry in judged if entry.verdict.state == "admitted"]
    wanted = [(entry.facts.binding, entry.place) for entry in admitted if entry.place is not None]
    found = await places.find_chats(connection, wanted) if wanted else {}
    for entry in admitted:
        binding, message, key = entry.facts.binding, entry.waiting.message, entry.key
        if key is not None:
            entry.chat_id = found.get(key)
        elif message.reply_to:
            agent = binding.agent_id or ""
            entry.chat_id = await places.chat_of_message(connection, entry.lane, message.reply_to, agent)
        if entry.chat_id is None:
            entry.chat_id = await places.make_chat(connection, binding, message, entry.place)
            if key is not None:
                found[key] = entry.chat_id
    windowed = [(b.id, place.key) for b, place in wanted if place.window_minutes]
    if windowed:
        await places.touch_places(connection, windowed)


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
