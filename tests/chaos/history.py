"""A violation, and the shortest history that shows it: the lines about its subjects, and what was done to the cluster."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.chaos.evidence import Chat, Evidence, Row, Seen
from tests.chaos.workload import Step


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken promise. `subjects` are tags of history lines: words of messages, `turn 7`, `delivery 9` ..."""

    rule: str
    sentence: str
    chat: str = ""
    subjects: frozenset[str] = frozenset()
    history: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return "\n".join([f"{self.rule}: {self.sentence}", *(f"    {line}" for line in self.history)])


def history(evidence: Evidence, violation: Violation) -> Iterator[str]:
    """The lines about the subjects of a violation, in the order of time, from the first of them to the last."""
    lines = [line for chat in evidence.chats for line in _lines(chat) if line[2] & violation.subjects]
    if not lines:
        lines = [line for chat in evidence.chats if chat.id == violation.chat for line in _lines(chat)]
    first, last = (
        min((at for at, *_ in lines), default=0.0),
        max((at for at, *_ in lines), default=float("inf")),
    )
    lines += [(event.at, f"!! {event.what}", frozenset()) for event in evidence.events if event.at <= last]
    start = min([first, *(event.at for event in evidence.events)])
    for at, text, _ in sorted(lines, key=lambda line: line[0]):
        yield f"{at - start:7.3f}  {text}"


Line = tuple[float, str, frozenset[str]]


def _lines(chat: Chat) -> Iterator[Line]:
    words = words_by_inbound(chat)
    for step, shown in said(chat):
        yield shown.at, f"{chat.id} says {short(step.text)!r}", frozenset({step.word})
    for row in chat.inbound:
        subjects = frozenset({words.get(row["id"], ""), f"inbound {row['id']}"})
        yield (
            row["at"],
            f"inbound {row['id']} stored by term {row['term']}: {row['state']} {row['reason']}",
            subjects,
        )
    for turn in chat.turns:
        read = [words.get(m["inbound_id"], "") for m in chat.messages if m["chat_id"] == turn["chat_id"]]
        text = f"turn {turn['id']} {turn['state']}, epoch {turn['epoch']}, read to {turn['read_seq']} {turn['error']}"
        yield turn["at"], text, frozenset({f"turn {turn['id']}", *read})
    for row in chat.deliveries:
        what = f"{row['purpose']} {row['action']} {row['state']} {short(row['body']['plain'])!r}"
        subjects = frozenset(
            {f"delivery {row['id']}", f"turn {row['turn_id']}", f"shown {row['platform_id']}"}
        )
        yield (
            row["at"],
            f"delivery {row['id']} of turn {row['turn_id']}: {what} {row['error'] or ''}",
            subjects,
        )
    for shown in chat.seen:
        if shown.from_bot:
            subjects = frozenset({f"shown {shown.id}"})
            yield shown.edited_at or shown.at, f"people see {shown.id}: {short(shown.text)!r}", subjects


def said(chat: Chat) -> Iterator[tuple[Step, Seen]]:
    """What people wrote, with the message that it became on the platform."""
    for step in chat.said:
        for shown in chat.seen:
            if not shown.from_bot and shown.text == step.text:
                yield step, shown


def inbound_of(chat: Chat, shown: Seen) -> Sequence[Row]:
    return [row for row in chat.inbound if row["message_key"] == f"m:{shown.id}"]


def words_by_inbound(chat: Chat) -> dict[int, str]:
    return {row["id"]: step.word for step, shown in said(chat) for row in inbound_of(chat, shown)}


def short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def about(chat: Chat, row: Row, rule: str, sentence: str) -> Violation:
    subjects = {f"delivery {row['id']}"} | ({f"turn {row['turn_id']}"} if row["turn_id"] else set())
    return Violation(rule, sentence, chat.id, frozenset(subjects))


def words(chat: Chat) -> frozenset[str]:
    return frozenset(step.word for step in chat.said)
