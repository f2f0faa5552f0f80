"""What people write: stored once, decided on once, heard only from who may, covered by one turn, in order."""

from collections import Counter
from collections.abc import Iterator

from tests.chaos.evidence import Chat, Evidence, Row
from tests.chaos.history import Violation, inbound_of, said, words, words_by_inbound
from tests.chaos.workload import Step


def nothing_is_lost_or_doubled_on_the_way_in(evidence: Evidence) -> Iterator[Violation]:
    """Every message that the platform took from a person is stored once and decided on once."""
    for chat in evidence.chats:
        for step, shown in said(chat):
            rows = inbound_of(chat, shown)
            if len(rows) != 1:
                rule = "lost" if not rows else "doubled"
                yield Violation(
                    rule, f"{step.word} was stored {len(rows)} times", chat.id, frozenset({step.word})
                )
            elif rows[0]["state"] == "new":
                yield Violation("stuck", f"nobody decided on {step.word}", chat.id, frozenset({step.word}))


def only_who_may_is_heard(evidence: Evidence) -> Iterator[Violation]:
    """What is refused is recorded with its reason, is in no chat and reaches no model; what may is in one chat, once."""
    for chat in evidence.chats:
        copies = Counter(row["inbound_id"] for row in chat.messages if row["role"] == "user")
        for step, shown in said(chat):
            for row in inbound_of(chat, shown):
                yield from _admitted_right(evidence, chat, step, row, copies[row["id"]])


def _admitted_right(evidence: Evidence, chat: Chat, step: Step, row: Row, copies: int) -> Iterator[Violation]:
    subjects = frozenset({step.word})
    wanted = {"answered": "admitted", "obeyed": "consumed"}.get(step.expected, "refused")
    admitted = wanted == "admitted"
    if row["state"] not in (wanted, "new"):
        yield Violation("admission", f"{step.word} was {row['state']} ({row['reason']})", chat.id, subjects)
    if not admitted and not row["reason"] and row["state"] != "new":
        yield Violation("admission", f"{step.word} was {row['state']} without a reason", chat.id, subjects)
    if copies != (1 if row["state"] == "admitted" else 0):
        rule = "doubled" if admitted and copies else "lost" if admitted else "admission"
        yield Violation(rule, f"{step.word} is {copies} times in a chat", chat.id, subjects)
    if not admitted and evidence.read_by_model(step.word):
        yield Violation(
            "admission", f"{step.word} was {row['state']}, and a model read it", chat.id, subjects
        )


def every_message_is_covered_by_one_turn(evidence: Evidence) -> Iterator[Violation]:
    """A turn covers what came after the one before it had read its last, up to what itself has read."""
    for chat in evidence.chats:
        for turn in chat.turns:
            if turn["state"] == "running":
                yield Violation(
                    "stuck", f"turn {turn['id']} runs on", chat.id, frozenset({f"turn {turn['id']}"})
                )
        if chat.unread and all(turn["state"] != "running" for turn in chat.turns):
            yield Violation("stuck", "messages wait for a turn that nobody starts", chat.id, words(chat))
        for conversation in {row["chat_id"] for row in chat.messages}:
            yield from _covered(evidence, chat, conversation)


def _covered(evidence: Evidence, chat: Chat, conversation: str) -> Iterator[Violation]:
    words = words_by_inbound(chat)
    people = [r for r in chat.messages if r["chat_id"] == conversation and r["role"] == "user"]
    read = 0
    for turn in (t for t in chat.turns if t["chat_id"] == conversation and t["state"] != "running"):
        covered = [row for row in people if read < row["seq"] <= turn["read_seq"]]
        if not covered:
            yield Violation(
                "doubled",
                f"turn {turn['id']} answers nothing new",
                chat.id,
                frozenset({f"turn {turn['id']}"}),
            )
        for row in covered:
            word = words.get(row["inbound_id"], "")
            if not turn["error"] and not evidence.read_by_model(word, until=turn["ended"]):
                yield Violation(
                    "lost", f"{word} counts as answered and no model read it", chat.id,
                    frozenset({word, f"turn {turn['id']}"}),
                )  # fmt: skip
        read = max(read, turn["read_seq"])
    for row in people:
        if row["seq"] > read and not chat.unread:
            word = words.get(row["inbound_id"], "")
            yield Violation("lost", f"{word} is covered by no turn", chat.id, frozenset({word}))


def people_are_read_in_order(evidence: Evidence) -> Iterator[Violation]:
    """In a conversation stands first what was written first. Of those that push, several may arrive at once."""
    for chat in evidence.chats:
        if not chat.said or chat.said[0].bot.kind != "telegram":
            continue
        for conversation in {row["chat_id"] for row in chat.messages}:
            rows = [r for r in chat.messages if r["chat_id"] == conversation and r["role"] == "user"]
            read = [row["inbound_id"] for row in sorted(rows, key=lambda row: row["seq"])]
            if read != sorted(read):
                yield Violation("order", f"a conversation holds {read}, in this order", chat.id, words(chat))


def a_model_reads_one_chat_at_a_time(evidence: Evidence) -> Iterator[Violation]:
    """No request holds what was written in two chats."""
    for _, request in evidence.asked:
        read = [
            (chat.id, s.word)
            for chat in evidence.chats
            for s in chat.said
            if s.word in request and s.word != s.text
        ]
        if len({chat for chat, _ in read}) > 1:
            words = frozenset(word for _, word in read)
            yield Violation(
                "admission", f"one request holds {sorted(words)} of several chats", read[0][0], words
            )
