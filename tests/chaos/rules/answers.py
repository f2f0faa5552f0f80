"""What people see: each answer once, in order, as it is stored and as the model said it, and nothing else."""

from collections.abc import Iterator

from tests.chaos.evidence import Chat, Evidence, Row, Seen
from tests.chaos.history import Violation, about, inbound_of, said, short
from tests.chaos.workload import Step

OPEN = ("planned", "sending")


def every_answer_is_seen_once(evidence: Evidence) -> Iterator[Violation]:
    """The visible messages of the bot are the recorded parts: each once, nothing else, and texts as they are stored."""
    for chat in evidence.chats:
        for row in chat.deliveries:
            if row["state"] in OPEN:
                yield about(chat, row, "stuck", f"delivery {row['id']} is still {row['state']}")
            if row["state"] == "failed":
                yield about(chat, row, "lost", f"delivery {row['id']} failed: {row['error']}")
        left = {shown.id: shown for shown in chat.seen if shown.from_bot}
        yield from _known_parts(chat, left)
        yield from _doubtful_parts(chat, left)
        for shown in left.values():
            yield Violation(
                "doubled", f"the bot shows {short(shown.text)!r}, which no delivery explains", chat.id,
                frozenset({f"shown {shown.id}"}) | _turns_saying(chat, shown.text),
            )  # fmt: skip
        for turn in chat.turns:
            yield from _stored_as_shown(chat, turn)


def _known_parts(chat: Chat, left: dict[str, Seen]) -> Iterator[Violation]:
    """What was sent is there with its text; the last part that wrote a message decides on that."""
    last = {_platform_id(chat, row): row for row in chat.deliveries if row["state"] == "sent"}
    for platform_id, row in last.items():
        shown = left.pop(platform_id, None)
        if shown is None:
            yield about(chat, row, "lost", f"delivery {row['id']} counts as sent and nobody sees it")
        elif shown.text != row["body"]["plain"]:
            yield about(
                chat, row, "changed",
                f"delivery {row['id']} was {short(row['body']['plain'])!r}, people see {short(shown.text)!r}",
            )  # fmt: skip


def _doubtful_parts(chat: Chat, left: dict[str, Seen]) -> Iterator[Violation]:
    """A part of unknown outcome is seen at most once."""
    for row in chat.deliveries:
        if row["state"] in ("unknown", "dismissed"):
            found = next((s.id for s in left.values() if s.text == row["body"]["plain"]), None)
            if found is not None:
                del left[found]
            if row["action"] == "edit":
                yield about(chat, row, "doubtful", f"delivery {row['id']} is an edit, which can be repeated")


def _stored_as_shown(chat: Chat, turn: Row) -> Iterator[Violation]:
    """The parts of a turn's answer, together, are the stored answer, in one plan of the turn's last epoch."""
    if turn["state"] == "running":
        return
    parts = [r for r in chat.deliveries if r["turn_id"] == turn["id"] and r["purpose"] == "answer"]
    answers = [m for m in chat.messages if m["turn_id"] == turn["id"] and m["seq"] == turn["answer_seq"]]
    subjects = frozenset({f"turn {turn['id']}"})
    if len(answers) != 1:
        yield Violation("lost", f"turn {turn['id']} has {len(answers)} stored answers", chat.id, subjects)
        return
    if [row["part"] for row in parts] != list(range(len(parts))) or not parts:
        numbers = [row["part"] for row in parts]
        yield Violation("doubled", f"turn {turn['id']} has the parts {numbers}", chat.id, subjects)
    if {row["epoch"] for row in parts} - {turn["epoch"]}:
        yield Violation("stale", f"an older epoch of turn {turn['id']} planned its answer", chat.id, subjects)
    planned = [row["body"]["plain"] for row in parts]
    stored = answers[0]["content"]
    # Where an answer was cut, the space at the cut goes; nothing else does.
    same = (
        planned == [stored.strip()] if len(planned) == 1 else _letters("".join(planned)) == _letters(stored)
    )
    if not same:
        yield Violation(
            "changed", f"turn {turn['id']} stored another answer than it planned", chat.id, subjects
        )


def order_holds(evidence: Evidence) -> Iterator[Violation]:
    """New messages of the bot appear in the order of their deliveries, turns one after the other."""
    for chat in evidence.chats:
        places = {shown.id: n for n, shown in enumerate(chat.seen)}
        last, before = -1, None
        for row in chat.deliveries:
            place = (
                places.get(row["platform_id"]) if row["state"] == "sent" and row["action"] == "send" else None
            )
            if place is None:
                continue
            if place < last and before is not None:
                yield about(chat, row, "order", f"delivery {row['id']} is seen before {before['id']}")
            last, before = place, row


def a_working_message_becomes_the_answer(evidence: Evidence) -> Iterator[Violation]:
    """A turn has one where its bot shows one; the answer takes it over, unless its own number is in doubt."""
    for chat in evidence.chats:
        shows = chat.said and chat.said[0].bot.mode != "off"
        for turn in chat.turns:
            rows = [r for r in chat.deliveries if r["turn_id"] == turn["id"] and r["purpose"] == "working"]
            subjects = frozenset({f"turn {turn['id']}"})
            if len(rows) != bool(shows):
                yield Violation(
                    "doubled" if rows else "lost", f"turn {turn['id']} has {len(rows)} working messages",
                    chat.id, subjects,
                )  # fmt: skip
            if turn["state"] == "running":
                continue
            taken = {
                r["target_id"] for r in chat.deliveries
                if r["turn_id"] == turn["id"] and r["purpose"] == "answer" and r["action"] == "edit"
            }  # fmt: skip
            for row in rows:
                if row["state"] == "sent" and row["id"] not in taken:
                    yield about(chat, row, "changed", f"the working message of turn {turn['id']} stays")


def an_answer_is_what_the_model_said(evidence: Evidence) -> Iterator[Violation]:
    """To the last message that the turn has read. A turn fails only where the model did."""
    failing = any("model" in event.what for event in evidence.events)
    for chat in evidence.chats:
        steps = {row["id"]: step for step, shown in said(chat) for row in inbound_of(chat, shown)}
        for turn in chat.turns:
            subjects = frozenset({f"turn {turn['id']}"})
            if turn["error"] and not (failing and turn["error"].startswith("model_")):
                yield Violation("lost", f"turn {turn['id']} failed: {turn['error']}", chat.id, subjects)
            ours = [m for m in chat.messages if m["chat_id"] == turn["chat_id"]]
            answer = next((m["content"] for m in ours if m["seq"] == turn["answer_seq"]), None)
            read = [m for m in ours if m["role"] == "user" and m["seq"] <= turn["read_seq"]]
            step = steps.get(max(read, key=lambda m: m["seq"])["inbound_id"]) if read else None
            if turn["error"] or answer is None or step is None:
                continue
            if _letters(answer) != _letters(_replied(step)):
                yield Violation(
                    "changed", f"turn {turn['id']} stored {short(answer)!r}, the model said {short(_replied(step))!r}",
                    chat.id, subjects,
                )  # fmt: skip


def _replied(step: Step) -> str:
    """The last words of the model to a message."""
    if not step.script:
        return f"You said: {step.text}"
    last = max((n for n, piece in enumerate(step.script) if "tool" in piece), default=-1)
    return "".join(piece["text"] for piece in step.script[last + 1 :])


def _platform_id(chat: Chat, row: Row) -> str:
    """The message that a sent part has written: its own, or the one that it edited."""
    if row["action"] == "send":
        return str(row["platform_id"])
    return next((str(d["platform_id"]) for d in chat.deliveries if d["id"] == row["target_id"]), "")


def _turns_saying(chat: Chat, text: str) -> frozenset[str]:
    return frozenset(
        f"turn {row['turn_id']}" for row in chat.deliveries if row["turn_id"] and row["body"]["plain"] == text
    )


def _letters(text: str) -> str:
    return "".join(text.split())
