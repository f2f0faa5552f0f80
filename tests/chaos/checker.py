"""Decides whether a history is right: what people saw, what the platform was asked, and what is stored at the end.

Each rule is a function from the evidence to its violations. A violation names what it is about (`subjects`), and its
history is only what concerns those, with everything that was done to the cluster up to then.
Source: architecture, section 4, "What is promised".
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from shared.i18n import say
from tests.chaos.evidence import Chat, Evidence, Row, Seen
from tests.chaos.history import Violation, history, inbound_of, said, short, words_by_inbound
from tests.chaos.workload import Step

WORKING = "Working…"
OPEN = ("planned", "sending")
DOUBTFUL = ("failed", "unknown")


Rule = Callable[[Evidence], Iterator[Violation]]


def check(evidence: Evidence) -> list[Violation]:
    """All violations, each with the shortest history that shows it."""
    return [
        replace(violation, history=tuple(history(evidence, violation)))
        for rule in RULES
        for violation in rule(evidence)
    ]


# -- from the platform to an admitted message ----------------------------------------------------------------


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


# -- turns ---------------------------------------------------------------------------------------------------


def every_message_is_covered_by_one_turn(evidence: Evidence) -> Iterator[Violation]:
    """A turn covers what came after the one before it had read its last, up to what itself has read."""
    for chat in evidence.chats:
        for turn in chat.turns:
            if turn["state"] == "running":
                yield Violation(
                    "stuck", f"turn {turn['id']} runs on", chat.id, frozenset({f"turn {turn['id']}"})
                )
        if chat.unread and all(turn["state"] != "running" for turn in chat.turns):
            yield Violation("stuck", "messages wait for a turn that nobody starts", chat.id, _words(chat))
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


# -- what people see -----------------------------------------------------------------------------------------


def every_answer_is_seen_once(evidence: Evidence) -> Iterator[Violation]:
    """The visible messages of the bot are the recorded parts: each once, nothing else, and texts as they are stored."""
    for chat in evidence.chats:
        for row in chat.deliveries:
            if row["state"] in OPEN:
                yield _about(chat, row, "stuck", f"delivery {row['id']} is still {row['state']}")
            if row["state"] == "failed":
                yield _about(chat, row, "lost", f"delivery {row['id']} failed: {row['error']}")
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
            yield _about(chat, row, "lost", f"delivery {row['id']} counts as sent and nobody sees it")
        elif shown.text != row["body"]["plain"]:
            yield _about(
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
                yield _about(chat, row, "doubtful", f"delivery {row['id']} is an edit, which can be repeated")


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
                yield _about(chat, row, "order", f"delivery {row['id']} is seen before {before['id']}")
            last, before = place, row


# -- tools, doubts, leaders ----------------------------------------------------------------------------------


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


def doubts_are_shown_and_explained(evidence: Evidence) -> Iterator[Violation]:
    """`unknown` is the only gap, is caused by what happened to the way to the platform, and its owner sees it."""
    causes = [event.at for event in evidence.events if event.explains]
    for chat in evidence.chats:
        for row in chat.deliveries:
            if row["state"] in DOUBTFUL and row["id"] not in evidence.listed:
                yield _about(
                    chat, row, "hidden", f"delivery {row['id']} is {row['state']} and its owner is not told"
                )
            told = chat.binding in evidence.notified or row["purpose"] == "working"
            if row["state"] in DOUBTFUL and not told:
                yield _about(
                    chat, row, "hidden", f"delivery {row['id']} is {row['state']} without a notification"
                )
            if row["state"] == "unknown" and not any(at <= row["at"] for at in causes):
                yield _about(chat, row, "doubtful", f"delivery {row['id']} is unknown without any cause")


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
            yield Violation(
                "stale", f"an older term stored after a newer one: {terms}", chat.id, _words(chat)
            )


# -- what else people were told ------------------------------------------------------------------------------


def each_notice_is_said_once(evidence: Evidence) -> Iterator[Violation]:
    """What gets a sentence of the bot itself gets one, and nothing else does."""
    for chat in evidence.chats:
        wanted, said = len(list(_told(chat))), len(list(_notices(chat)))
        if wanted != said:
            rule = "lost" if said < wanted else "doubled"
            yield Violation(rule, f"{said} notices were planned for {wanted} messages", chat.id, _words(chat))


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
                    yield _about(chat, row, "changed", f"the working message of turn {turn['id']} stays")


def people_are_read_in_order(evidence: Evidence) -> Iterator[Violation]:
    """In a conversation stands first what was written first. Of those that push, several may arrive at once."""
    for chat in evidence.chats:
        if not chat.said or chat.said[0].bot.kind != "telegram":
            continue
        for conversation in {row["chat_id"] for row in chat.messages}:
            rows = [r for r in chat.messages if r["chat_id"] == conversation and r["role"] == "user"]
            read = [row["inbound_id"] for row in sorted(rows, key=lambda row: row["seq"])]
            if read != sorted(read):
                yield Violation("order", f"a conversation holds {read}, in this order", chat.id, _words(chat))


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
                yield _about(chat, notice, "changed", f"people were told that a chat is {end}, and it is not")
            if left and before and (turn := _running_at(chat, placed[before], notice["seq"])):
                yield _about(chat, notice, "changed", f"a chat was left in which turn {turn} ran")


def _running_at(chat: Chat, conversation: str, seq: int) -> int:
    """The turn that had begun and not ended when a part got its number: they get them under one lock."""
    for turn in chat.turns:
        rows = [r for r in chat.deliveries if r["turn_id"] == turn["id"]]
        begun = any(r["purpose"] == "working" and r["seq"] < seq for r in rows)
        ends = any(r["purpose"] == "answer" and r["part"] == 0 and r["seq"] > seq for r in rows)
        if turn["chat_id"] == conversation and begun and ends:
            return int(turn["id"])
    return 0


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


RULES: tuple[Rule, ...] = (
    nothing_is_lost_or_doubled_on_the_way_in,
    only_who_may_is_heard,
    every_message_is_covered_by_one_turn,
    every_answer_is_seen_once,
    order_holds,
    no_write_ran_twice,
    doubts_are_shown_and_explained,
    no_stale_leader_wrote,
    each_notice_is_said_once,
    a_working_message_becomes_the_answer,
    people_are_read_in_order,
    a_new_chat_is_new_and_waits_for_the_answer,
    an_answer_is_what_the_model_said,
    a_model_reads_one_chat_at_a_time,
    a_write_is_recorded_as_it_went,
)


# -- small things --------------------------------------------------------------------------------------------


def _told(chat: Chat) -> Iterator[tuple[Step, Row]]:
    """The messages that the bot itself says a sentence to, in order."""
    pairs = [(step, row) for step, shown in said(chat) for row in inbound_of(chat, shown)]
    unique = {row["id"]: (step, row) for step, row in pairs if step.expected in ("noticed", "obeyed")}
    return (unique[id_] for id_ in sorted(unique) if unique[id_][1]["state"] != "new")


def _notices(chat: Chat) -> Iterator[Row]:
    return (row for row in chat.deliveries if row["purpose"] == "notice")


def _words(chat: Chat) -> frozenset[str]:
    return frozenset(step.word for step in chat.said)


def _platform_id(chat: Chat, row: Row) -> str:
    """The message that a sent part has written: its own, or the one that it edited."""
    if row["action"] == "send":
        return str(row["platform_id"])
    return next((str(d["platform_id"]) for d in chat.deliveries if d["id"] == row["target_id"]), "")


def _turns_saying(chat: Chat, text: str) -> frozenset[str]:
    return frozenset(
        f"turn {row['turn_id']}" for row in chat.deliveries if row["turn_id"] and row["body"]["plain"] == text
    )


def _about(chat: Chat, row: Row, rule: str, sentence: str) -> Violation:
    subjects = {f"delivery {row['id']}"} | ({f"turn {row['turn_id']}"} if row["turn_id"] else set())
    return Violation(rule, sentence, chat.id, frozenset(subjects))


def _letters(text: str) -> str:
    return "".join(text.split())
