"""Decides on stored messages, serially for a lane, and starts turns for what is admitted.

Everything happens in one transaction that holds the lane: the decisions, the erased texts, the sender log, the
messages of the chats, the notices to the senders and the claim of the turns. Source: architecture, step 3.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from shared.config.sections import Limits
from shared.domain.records import Binding, Lane, Part, ReplyMode, Turn
from shared.i18n import say
from shared.sdk.ops import Inbound
from shared.store import Connection, admission, deliveries, turns
from shared.store.admission import Decided, LaneFacts, Place, Waiting
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

    started: list[Turn] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)
    planned: bool = False
    switched_off: str = ""
    more: bool = False


def judge(facts: LaneFacts, waiting: Waiting, limits: Limits) -> Verdict:
    """The decision on one message, from plain facts.

    The order matters: a person who is not listed learns nothing, not even that the bot exists (ALLOW-06).
    """
    message = waiting.message
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


async def admit(connection: Connection, lane: Lane, *, holder: str, limits: Limits, claim: bool) -> Outcome:
    """Decide on everything that waits in a lane. `claim` lets this frontend take the chats that have no turn."""
    outcome = Outcome()
    facts = await admission.lock_lane(connection, lane)
    if facts is None:
        return outcome
    waiting = await admission.waiting(connection, lane, limit=BATCH)
    outcome.more = len(waiting) == BATCH
    verdicts = _judge_all(facts, waiting, limits)
    decided: list[Decided] = []
    notices: list[Part] = []
    chats: dict[str, list[tuple[Waiting, Verdict]]] = {}
    for entry, verdict in verdicts:
        chat_id = None
        if verdict.state == "admitted":
            chat_id = await _chat_for(connection, lane, facts.binding, entry.message)
            chats.setdefault(chat_id, []).append((entry, verdict))
        if verdict.notice:
            notices.append(_notice(entry.message, verdict.notice))
        decided.append(Decided(entry, verdict.state, verdict.reason, chat_id, verdict.noticed))
    if decided:
        await admission.write_decisions(connection, lane, decided)
    if notices:
        await deliveries.plan(connection, lane, notices)
        outcome.planned = True
    for chat_id, admitted in chats.items():
        await _append(connection, lane, facts.binding, chat_id, admitted, holder if claim else "", outcome)
    await _switch_off_if_unusable(connection, facts, verdicts, outcome)
    return outcome


def _judge_all(facts: LaneFacts, waiting: list[Waiting], limits: Limits) -> list[tuple[Waiting, Verdict]]:
    """Judge in order; what is admitted in this batch counts towards the rate of what follows."""
    verdicts: list[tuple[Waiting, Verdict]] = []
    admitted: dict[str, int] = {}
    told: set[str] = set()
    for entry in waiting:
        sender = entry.message.sender.id
        known = Waiting(
            entry.id,
            entry.message,
            entry.recent + admitted.get(sender, 0),
            entry.noticed or sender in told,
            entry.received_at,
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


async def _chat_for(connection: Connection, lane: Lane, binding: Binding, message: Inbound) -> str:
    place = _place(binding, message)
    if place is not None:
        found = await admission.find_chat(connection, binding, place)
    elif message.reply_to:
        found = await admission.chat_of_message(connection, lane, message.reply_to, binding.agent_id or "")
    else:
        found = None
    return found or await admission.make_chat(connection, binding, message, place)


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
    connection: Connection,
    lane: Lane,
    binding: Binding,
    chat_id: str,
    admitted: list[tuple[Waiting, Verdict]],
    holder: str,
    outcome: Outcome,
) -> None:
    head = await turns.lock_chat(connection, chat_id)
    assert head is not None, "a chat was deleted while its lane was held"
    messages = [_chat_message(entry, verdict) for entry, verdict in admitted]
    if head.turn_id is not None or not holder:
        await turns.append(connection, chat_id, messages, answer=True)
        outcome.joined.append(chat_id)
        return
    last = admitted[-1][0].message
    reply_to = "" if last.direct else last.id
    turn = await begin(
        connection,
        lane,
        head,
        holder=holder,
        reply_mode=binding.reply_mode,
        reply_to=reply_to,
        messages=messages,
    )
    outcome.started.append(turn)
    outcome.planned = outcome.planned or binding.reply_mode != "off"


async def begin(
    connection: Connection,
    lane: Lane,
    head: turns.Head,
    *,
    holder: str,
    reply_mode: ReplyMode,
    reply_to: str,
    messages: Sequence[NewMessage] = (),
) -> Turn:
    """Claim a locked chat and plan the working message, where the reply mode has one (ANS-11, ANS-21)."""
    turn = await turns.start(connection, head, holder, origin="message", messages=messages)
    if reply_mode != "off":
        text = say("working")
        part = Part(
            "working", "send", {"text": text, "markup": "", "plain": text}, thread=head.thread, reply_to=reply_to,
            chat_id=head.id, turn_id=turn.id, epoch=turn.epoch,
        )  # fmt: skip
        await deliveries.plan(connection, lane, [part])
    return turn


async def claim(connection: Connection, chat_id: str, lane: Lane | None, *, holder: str) -> Turn | None:
    """Start a turn for a waiting chat of a binding (`lane`) or of the web; None when there is nothing to do."""
    facts = await admission.lock_lane(connection, lane) if lane is not None else None
    head = await turns.lock_chat(connection, chat_id, skip_locked=True)
    if head is None or head.turn_id is not None or not head.unread:
        return None
    if lane is None or facts is None:
        return await turns.start(connection, head, holder, origin="web")
    mode = facts.binding.reply_mode
    return await begin(connection, lane, head, holder=holder, reply_mode=mode, reply_to="")


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
    reply_to = "" if message.direct else message.id
    body = {"text": text, "markup": "", "plain": text}
    return Part("notice", "send", body, thread=message.thread, reply_to=reply_to)


async def _switch_off_if_unusable(
    connection: Connection, facts: LaneFacts, verdicts: list[tuple[Waiting, Verdict]], outcome: Outcome
) -> None:
    """An agent that is gone or has no model switches the binding off (OFF-05, OFF-06)."""
    reasons = {verdict.reason for _, verdict in verdicts} & {"no_agent", "no_model"}
    for reason in reasons:
        title = say("off_title", name=facts.binding.name)
        owner = await admission.switch_off(
            connection, facts.binding.id, reason=say(f"off_{reason}"), title=title
        )
        outcome.switched_off = outcome.switched_off or (owner or "")
