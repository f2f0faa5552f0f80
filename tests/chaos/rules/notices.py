"""What the bot itself says: one sentence where one is due, and `/new` does what it says."""

from collections.abc import Iterator

from shared.i18n import say
from tests.chaos.evidence import Chat, Evidence, Row
from tests.chaos.history import Violation, about, inbound_of, said, words
from tests.chaos.workload import Step


def each_notice_is_said_once(evidence: Evidence) -> Iterator[Violation]:
    """What gets a sentence of the bot itself gets one, and nothing else does."""
    for chat in evidence.chats:
        wanted, said = len(list(_told(chat))), len(list(_notices(chat)))
        if wanted != said:
            rule = "lost" if said < wanted else "doubled"
            yield Violation(rule, f"{said} notices were planned for {wanted} messages", chat.id, words(chat))


def a_new_chat_is_new_and_waits_for_the_answer(evidence: Evidence) -> Iterator[Violation]:
    """What the command was answered with is what happened: the next message is in another chat, or in the same."""
    for chat in evidence.chats:
        told, notices = list(_told(chat)), list(_notices(chat))
        if len(told) != len(notices):
            continue
        placed = {row["inbound_id"]: row["chat_id"] for row in chat.messages if row["role"] == "user"}
        for (step, row), notice in zip(told, notices, strict=True):
            if step.expected != "obeyed":
                continue
            before = max((id_ for id_ in placed if id_ < row["id"]), default=0)
            after = min((id_ for id_ in placed if id_ > row["id"]), default=0)
            left = notice["body"]["plain"] != say("new_chat_later", command=step.text)
            if before and after and (placed[before] != placed[after]) is not left:
                end = "left" if left else "kept"
                yield about(chat, notice, "changed", f"people were told that a chat is {end}, and it is not")
            if left and before and (turn := _running_at(chat, placed[before], notice["seq"])):
                yield about(chat, notice, "changed", f"a chat was left in which turn {turn} ran")


def _running_at(chat: Chat, conversation: str, seq: int) -> int:
    """The turn that had begun and not ended when a part got its number: they get them under one lock."""
    for turn in chat.turns:
        rows = [r for r in chat.deliveries if r["turn_id"] == turn["id"]]
        begun = any(r["purpose"] == "working" and r["seq"] < seq for r in rows)
        ends = any(r["purpose"] == "answer" and r["part"] == 0 and r["seq"] > seq for r in rows)
        if turn["chat_id"] == conversation and begun and ends:
            return int(turn["id"])
    return 0


def _told(chat: Chat) -> Iterator[tuple[Step, Row]]:
    """The messages that the bot itself says a sentence to, in order."""
    pairs = [(step, row) for step, shown in said(chat) for row in inbound_of(chat, shown)]
    unique = {row["id"]: (step, row) for step, row in pairs if step.expected in ("noticed", "obeyed")}
    return (unique[id_] for id_ in sorted(unique) if unique[id_][1]["state"] != "new")


def _notices(chat: Chat) -> Iterator[Row]:
    return (row for row in chat.deliveries if row["purpose"] == "notice")
