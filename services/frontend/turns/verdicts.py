"""What becomes of a message, decided from plain facts: answered, refused, consumed, or not meant for the bot. Pure."""

from collections import Counter
from dataclasses import dataclass, replace

from services.frontend.turns import commands
from shared.config.sections import Limits
from shared.domain.records import Binding
from shared.i18n import say
from shared.sdk.ops import Inbound
from shared.store.admission import LaneFacts, Waiting, counts


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on one message: its state and reason, and a sentence for the sender.

    `command` is one that is still to be carried out, as it was written; it gives the sentence then.
    """

    state: str
    reason: str = ""
    notice: str = ""
    badge: str = ""
    noticed: bool = False
    command: str = ""


def judge_all(facts: LaneFacts, waiting: list[Waiting], limits: Limits) -> list[tuple[Waiting, Verdict]]:
    """Judge in order; what is answered in this batch counts towards the rate of what follows."""
    verdicts: list[tuple[Waiting, Verdict]] = []
    answered: Counter[str] = Counter()
    told: set[str] = set()
    for entry in waiting:
        sender = entry.message.sender.id
        known = replace(
            entry,
            recent=entry.recent + answered[sender],
            noticed=entry.noticed or sender in told,
        )
        verdict = judge(facts, known, limits)
        answered[sender] += counts(verdict.state, verdict.reason)
        if verdict.noticed:
            told.add(sender)
            # A notice that was not sent now must not put off the next one.
            verdict = Verdict(verdict.state, verdict.reason, verdict.notice, noticed=bool(verdict.notice))
        verdicts.append((known, verdict))
    return verdicts


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
    if command := commands.new_chat(message):
        objection = commands.objection(facts.binding, message, paired=waiting.paired)
        return Verdict("consumed", "new_chat", objection, command="" if objection else command)
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
