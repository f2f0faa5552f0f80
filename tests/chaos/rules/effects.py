"""What must not happen twice or in the wrong hands: writes, doubts, and the acts of leaders."""

from collections import Counter
from collections.abc import Iterator

from tests.chaos.evidence import Evidence
from tests.chaos.history import Violation, about, words

DOUBTFUL = ("failed", "unknown")


def no_write_ran_twice(evidence: Evidence) -> Iterator[Violation]:
    """One effect for what one message asked for, whatever died; what is recorded as done has happened."""
    by_value: Counter[str] = Counter()
    known = {row["id"] for row in evidence.operations}
    turns = {str(turn["id"]) for chat in evidence.chats for turn in chat.turns}
    for operation in evidence.effects.keys() - known:
        if operation.partition(":")[0] in turns:
            yield Violation("hidden", f"{operation} had an effect, and no ledger holds it")
    for row in evidence.operations:
        effects = evidence.effects[row["id"]]
        value = str(row["arguments"])
        by_value[value] += effects
        subjects = frozenset({f"turn {row['turn_id']}", f"operation {row['id']}"})
        if row["state"] == "done" and not effects:
            yield Violation("lost", f"operation {row['id']} counts as done and had no effect", "", subjects)
        if by_value[value] > 1:
            yield Violation("doubled", f"the write {value} ran {by_value[value]} times", "", subjects)


def a_write_is_recorded_as_it_went(evidence: Evidence) -> Iterator[Violation]:
    """No write is still under way at the end, and none that counts as failed has happened."""
    for row in evidence.operations:
        subjects = frozenset({f"turn {row['turn_id']}", f"operation {row['id']}"})
        if row["state"] == "started":
            yield Violation("stuck", f"operation {row['id']} is still {row['state']}", "", subjects)
        if row["state"] == "failed" and evidence.effects[row["id"]]:
            yield Violation(
                "changed", f"operation {row['id']} counts as failed and had an effect", "", subjects
            )


def doubts_are_shown_and_explained(evidence: Evidence) -> Iterator[Violation]:
    """`unknown` is the only gap, is caused by what happened to the way to the platform, and its owner sees it."""
    causes = [event.at for event in evidence.events if event.explains]
    for chat in evidence.chats:
        for row in chat.deliveries:
            if row["state"] in DOUBTFUL and row["id"] not in evidence.listed:
                yield about(
                    chat, row, "hidden", f"delivery {row['id']} is {row['state']} and its owner is not told"
                )
            told = chat.binding in evidence.notified or row["purpose"] == "working"
            if row["state"] in DOUBTFUL and not told:
                yield about(
                    chat, row, "hidden", f"delivery {row['id']} is {row['state']} without a notification"
                )
            if row["state"] == "unknown" and not any(at <= row["at"] for at in causes):
                yield about(chat, row, "doubtful", f"delivery {row['id']} is unknown without any cause")


def no_stale_leader_wrote(evidence: Evidence) -> Iterator[Violation]:
    """Positions only grow, nothing is confirmed that is not stored, and no leader stores after a newer one's claim."""
    for binding, (was, now) in evidence.positions.items():
        if now < was:
            yield Violation("stale", f"the position of {binding} went from {was} back to {now}")
    for binding, offset in evidence.polls:
        if offset > evidence.positions.get(binding, (0, offset))[1]:
            yield Violation("lost", f"{binding} confirmed {offset} to the platform, and less is stored")
    claimed = {row["binding_id"]: row for row in evidence.cursors}
    for chat in evidence.chats:
        cursor = claimed.get(chat.binding)
        for row in chat.inbound:
            late = cursor is not None and cursor["claimed"] and row["at"] > cursor["claimed"]
            if late and cursor is not None and row["term"] != cursor["term"]:
                yield Violation(
                    "stale", f"term {row['term']} stored a message after term {cursor['term']} had claimed the cursor",
                    chat.id, frozenset({f"inbound {row['id']}"}),
                )  # fmt: skip
    for chat in evidence.chats:
        terms = [row["term"] for row in chat.inbound]
        if terms != sorted(terms):
            yield Violation("stale", f"an older term stored after a newer one: {terms}", chat.id, words(chat))
