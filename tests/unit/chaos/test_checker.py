"""Each rule of the history checker, on histories written by hand: a right one, and one broken promise at a time."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from shared.i18n import say
from tests.chaos.checker import check
from tests.chaos.evidence import Chat, Event, Evidence, Seen
from tests.chaos.workload import Bot, Step

WORKING = "Working…"
BOT = Bot("bnd", "1:token", "progress")


def asked(word: str = "ping", expected: Any = "answered") -> Step:
    return Step(0.0, BOT, 5, word, f"echo {word}", 77, expected, script=[{"text": "pong"}])


def delivery(number: int, purpose: str, action: str, text: str, **more: Any) -> dict[str, Any]:
    row = {
        "id": number,
        "seq": number,
        "purpose": purpose,
        "action": action,
        "state": "sent",
        "platform_id": "",
        "target_id": None,
        "turn_id": 1,
        "epoch": 1,
        "part": 0,
        "body": {"plain": text},
        "error": None,
        "at": 3.0,
    }
    return row | more


def right() -> Evidence:
    """One message, one turn with one write, one answer in the working message."""
    chat = Chat(
        "bnd",
        "5",
        [asked()],
        [Seen("10", False, "echo ping", 1.0), Seen("11", True, "pong", 2.0, 3.0)],
        inbound=[{"id": 1, "message_key": "m:10", "state": "admitted", "reason": "", "term": 4, "at": 1.1}],
        messages=[
            {
                "chat_id": "c",
                "seq": 1,
                "role": "user",
                "inbound_id": 1,
                "turn_id": None,
                "content": "echo ping",
            },
            {
                "chat_id": "c",
                "seq": 2,
                "role": "assistant",
                "inbound_id": None,
                "turn_id": 1,
                "content": "pong",
            },
        ],
        turns=[
            {
                "id": 1,
                "chat_id": "c",
                "state": "done",
                "epoch": 1,
                "read_seq": 1,
                "answer_seq": 2,
                "error": "",
                "at": 1.2,
                "ended": 2.5,
            }
        ],
        deliveries=[
            delivery(1, "working", "send", WORKING, platform_id="11"),
            delivery(2, "answer", "edit", "pong", target_id=1),
        ],
    )
    return Evidence(
        7,
        [chat],
        asked=[(1.5, "echo ping")],
        operations=[{"id": "1:1:0", "turn_id": 1, "state": "done", "arguments": {"value": "ping"}}],
        effects=Counter({"1:1:0": 1}),
        polls=[("bnd", 8)],
        cursors=[{"binding_id": "bnd", "term": 4, "claimed": 1.0}],
        positions={"bnd": (3, 9)},
        events=[Event(1.5, "kill leader")],
    )


def test_a_right_history_is_right() -> None:
    assert check(right()) == []


@pytest.mark.parametrize(("notice", "chat"), [("new_chat", "d"), ("new_chat_later", "c")])
def test_a_right_history_with_a_command_is_right(notice: str, chat: str) -> None:
    evidence = right()
    with_command(evidence, say(notice, command="/new"), chat)
    assert check(evidence) == []


def lost_on_the_way_in(e: Evidence) -> None:
    e.chats[0].inbound = []


def never_decided(e: Evidence) -> None:
    e.chats[0].inbound[0]["state"] = "new"


def a_stranger_was_heard(e: Evidence) -> None:
    e.chats[0].said = [asked(expected="refused")]


def a_model_read_a_stranger(e: Evidence) -> None:
    stranger = asked("secret", "refused")
    e.chats[0].said = [*e.chats[0].said, stranger]
    e.chats[0].seen = [Seen("9", False, stranger.text, 0.5), *e.chats[0].seen]
    e.chats[0].inbound = [
        {"id": 0, "message_key": "m:9", "state": "refused", "reason": "not_listed", "term": 4, "at": 0.6},
        *e.chats[0].inbound,
    ]
    e.asked.append((1.6, "secret"))


def a_message_is_twice_in_the_chat(e: Evidence) -> None:
    e.chats[0].messages = [e.chats[0].messages[0], *e.chats[0].messages]


def a_turn_runs_for_ever(e: Evidence) -> None:
    e.chats[0].turns[0]["state"] = "running"


def closed_over_an_unread_message(e: Evidence) -> None:
    e.chats[0].turns[0]["read_seq"] = 0


def answered_without_being_read(e: Evidence) -> None:
    e.asked.clear()


def an_answer_is_seen_twice(e: Evidence) -> None:
    e.chats[0].seen = [*e.chats[0].seen, Seen("12", True, "pong", 4.0)]


def an_answer_that_counts_as_sent_is_not_seen(e: Evidence) -> None:
    e.chats[0].seen = e.chats[0].seen[:1]


def a_preview_came_after_the_answer(e: Evidence) -> None:
    e.chats[0].seen = [e.chats[0].seen[0], Seen("11", True, "po▉", 2.0, 3.5)]


def another_answer_is_stored(e: Evidence) -> None:
    e.chats[0].messages[1]["content"] = "something else"


def an_answer_was_planned_twice(e: Evidence) -> None:
    e.chats[0].deliveries = [*e.chats[0].deliveries, delivery(3, "answer", "send", "pong", platform_id="12")]
    e.chats[0].seen = [*e.chats[0].seen, Seen("12", True, "pong", 4.0)]


def an_older_epoch_answered(e: Evidence) -> None:
    e.chats[0].turns[0]["epoch"] = 2


def a_part_still_waits(e: Evidence) -> None:
    e.chats[0].deliveries[1]["state"] = "planned"


def parts_are_seen_in_the_wrong_order(e: Evidence) -> None:
    late, early = (
        delivery(n, "notice", "send", text, platform_id=i) for n, text, i in ((3, "b", "13"), (4, "a", "12"))
    )
    e.chats[0].deliveries = [*e.chats[0].deliveries, late, early]
    e.chats[0].seen = [*e.chats[0].seen, Seen("12", True, "a", 4.0), Seen("13", True, "b", 5.0)]


def a_write_ran_twice(e: Evidence) -> None:
    e.effects["1:1:0"] = 2


def a_write_ran_under_two_numbers(e: Evidence) -> None:
    e.operations = [*e.operations, dict(e.operations[0], id="1:2:0")]
    e.effects["1:2:0"] = 1


def a_write_that_counts_as_done_was_not(e: Evidence) -> None:
    e.effects.clear()


def a_doubt_is_hidden(e: Evidence) -> None:
    e.events = [Event(1.5, "lose replies of platform", explains=True)]
    e.chats[0].deliveries[0].update(state="unknown", platform_id="")
    e.chats[0].deliveries[1].update(action="send", platform_id="11")


def a_doubt_has_no_cause(e: Evidence) -> None:
    a_doubt_is_hidden(e)
    e.events, e.listed = [], frozenset({1})


def a_position_moved_back(e: Evidence) -> None:
    e.positions = {"bnd": (9, 8)}


def more_was_confirmed_than_is_stored(e: Evidence) -> None:
    e.polls = [("bnd", 10)]


def an_older_leader_stored_after_the_claim(e: Evidence) -> None:
    e.chats[0].inbound[0]["term"] = 3


def with_command(e: Evidence, notice: str, chat_after: str) -> None:
    """Before it `ping`, after it `more`, which a turn of its own answers."""
    chat, first = e.chats[0], e.chats[0].seen
    more, command = asked("more"), Step(0.0, BOT, 5, "/new", "/new", 77, "obeyed")
    chat.said = [*chat.said, command, more]
    chat.seen = [
        *first, Seen("20", False, "/new", 5.0), Seen("21", True, notice, 5.1), Seen("22", False, more.text, 6.0),
        Seen("23", True, "pong", 6.1, 6.2),
    ]  # fmt: skip
    inbound, message, turn = chat.inbound[0], chat.messages, chat.turns[0]
    chat.inbound = [
        inbound, inbound | {"id": 2, "message_key": "m:20", "state": "consumed", "reason": "new_chat", "at": 5.0},
        inbound | {"id": 3, "message_key": "m:22", "at": 6.0},
    ]  # fmt: skip
    seq = 0 if chat_after != "c" else 2
    chat.messages = [
        *message,
        message[0] | {"chat_id": chat_after, "seq": seq + 1, "inbound_id": 3, "content": more.text},
        message[1] | {"chat_id": chat_after, "seq": seq + 2, "turn_id": 2},
    ]
    chat.turns = [turn, turn | {"id": 2, "chat_id": chat_after, "read_seq": seq + 1, "answer_seq": seq + 2}]
    chat.deliveries = [
        *chat.deliveries,
        delivery(3, "notice", "send", notice, platform_id="21", turn_id=None),
        delivery(4, "working", "send", WORKING, platform_id="23", turn_id=2),
        delivery(5, "answer", "edit", "pong", target_id=4, turn_id=2),
    ]
    e.asked.append((1.7, "echo more"))


def a_notice_is_said_twice(e: Evidence) -> None:
    with_command(e, say("new_chat"), "d")
    e.chats[0].deliveries.append(
        delivery(6, "notice", "send", say("new_chat"), platform_id="30", turn_id=None)
    )
    e.chats[0].seen = [*e.chats[0].seen, Seen("30", True, say("new_chat"), 9.0)]


def a_notice_is_not_said(e: Evidence) -> None:
    with_command(e, say("new_chat"), "d")
    del e.chats[0].deliveries[2]
    e.chats[0].seen = [one for one in e.chats[0].seen if one.id != "21"]


def a_working_message_stays(e: Evidence) -> None:
    e.chats[0].deliveries[1].update(action="send", target_id=None, platform_id="12")
    e.chats[0].seen = [e.chats[0].seen[0], Seen("11", True, WORKING, 2.0), Seen("12", True, "pong", 3.0)]


def a_turn_has_two_working_messages(e: Evidence) -> None:
    e.chats[0].deliveries.insert(1, delivery(9, "working", "send", WORKING, platform_id="13"))
    e.chats[0].seen = [*e.chats[0].seen, Seen("13", True, WORKING, 4.0)]


def people_are_read_in_another_order(e: Evidence) -> None:
    with_command(e, say("new_chat_later", command="/new"), "c")
    one, other = e.chats[0].messages[0], e.chats[0].messages[2]
    one["inbound_id"], other["inbound_id"] = other["inbound_id"], one["inbound_id"]


def a_new_chat_is_the_old_one(e: Evidence) -> None:
    with_command(e, say("new_chat"), "c")


def a_chat_is_left_that_was_to_stay(e: Evidence) -> None:
    with_command(e, say("new_chat_later", command="/new"), "d")


def a_chat_is_left_in_which_a_turn_runs(e: Evidence) -> None:
    with_command(e, say("new_chat"), "d")
    e.chats[0].deliveries[1]["seq"] = 3
    e.chats[0].deliveries[2]["seq"] = 2


def a_turn_fails_without_any_cause(e: Evidence) -> None:
    e.chats[0].turns[0].update(error="turn_broken", state="failed")


def an_answer_is_cut(e: Evidence) -> None:
    e.chats[0].messages[1]["content"] = "po"
    e.chats[0].deliveries[1]["body"] = {"plain": "po"}
    e.chats[0].seen = [e.chats[0].seen[0], Seen("11", True, "po", 2.0, 3.0)]


def a_model_reads_two_chats(e: Evidence) -> None:
    other = right().chats[0]
    other.id, other.said = "6", [asked("other")]
    other.seen = [Seen("10", False, "echo other", 1.0), Seen("11", True, "pong", 2.0, 3.0)]
    e.chats.append(other)
    e.asked = [(1.5, "echo ping echo other")]


def a_write_is_under_way_for_ever(e: Evidence) -> None:
    e.operations[0]["state"] = "started"


def a_write_that_counts_as_failed_happened(e: Evidence) -> None:
    e.operations[0]["state"] = "failed"


def refused_without_a_reason(e: Evidence) -> None:
    a_model_read_a_stranger(e)
    e.asked.pop()
    e.chats[0].inbound[0]["reason"] = ""


def who_may_was_refused(e: Evidence) -> None:
    e.chats[0].inbound[0].update(state="refused", reason="rate")


def nobody_starts_a_turn(e: Evidence) -> None:
    e.chats[0].unread = True


def a_turn_answers_nothing_new(e: Evidence) -> None:
    again = e.chats[0].turns[0] | {"id": 2}
    e.chats[0].turns = [*e.chats[0].turns, again]


def a_part_failed(e: Evidence) -> None:
    e.chats[0].deliveries[1].update(state="failed", error={"code": "bug"})


def an_edit_is_unknown(e: Evidence) -> None:
    a_doubt_is_hidden(e)
    e.chats[0].deliveries[1].update(state="unknown", action="edit")


def a_turn_has_two_answers(e: Evidence) -> None:
    e.chats[0].messages = [*e.chats[0].messages, dict(e.chats[0].messages[1])]


def nobody_is_notified(e: Evidence) -> None:
    a_doubt_is_hidden(e)
    e.listed = frozenset({1, 2})
    e.chats[0].deliveries[1].update(state="unknown", platform_id="")


def an_older_term_stored_after_a_newer_one(e: Evidence) -> None:
    e.cursors.clear()
    first = e.chats[0].inbound[0]
    e.chats[0].inbound = [first, first | {"id": 2, "message_key": "m:99", "term": 3}]


def a_cause_came_only_afterwards(e: Evidence) -> None:
    a_doubt_is_hidden(e)
    e.listed = frozenset({1})
    e.events = [Event(99.0, "lose replies of platform", explains=True)]


def a_later_turn_read_it(e: Evidence) -> None:
    e.asked = [(9.0, "echo ping")]


def an_effect_is_in_no_ledger(e: Evidence) -> None:
    e.operations.clear()


def a_space_is_lost(e: Evidence) -> None:
    e.chats[0].messages[1]["content"] = "po ng"


#: what is broken, and the words in which it is told
TOLD: dict[Callable[[Evidence], None], str] = {
    refused_without_a_reason: "without a reason",
    who_may_was_refused: "was refused (rate)",
    nobody_starts_a_turn: "a turn that nobody starts",
    a_turn_answers_nothing_new: "answers nothing new",
    a_part_failed: "failed: {'code': 'bug'}",
    an_edit_is_unknown: "an edit, which can be repeated",
    a_turn_has_two_answers: "has 2 stored answers",
    nobody_is_notified: "without a notification",
    an_older_term_stored_after_a_newer_one: "an older term stored after a newer one",
    a_cause_came_only_afterwards: "unknown without any cause",
    a_later_turn_read_it: "counts as answered and no model read it",
    an_effect_is_in_no_ledger: "no ledger holds it",
    a_space_is_lost: "stored another answer",
}


@pytest.mark.parametrize(("broken", "words"), TOLD.items(), ids=[each.__name__ for each in TOLD])
def test_a_broken_promise_is_told_in_words(broken: Callable[[Evidence], None], words: str) -> None:
    evidence = right()
    broken(evidence)
    assert any(words in violation.sentence for violation in check(evidence))


BROKEN: dict[Callable[[Evidence], None], str] = {
    lost_on_the_way_in: "lost",
    never_decided: "stuck",
    a_stranger_was_heard: "admission",
    a_model_read_a_stranger: "admission",
    a_message_is_twice_in_the_chat: "doubled",
    a_turn_runs_for_ever: "stuck",
    closed_over_an_unread_message: "lost",
    answered_without_being_read: "lost",
    an_answer_is_seen_twice: "doubled",
    an_answer_that_counts_as_sent_is_not_seen: "lost",
    a_preview_came_after_the_answer: "changed",
    another_answer_is_stored: "changed",
    an_answer_was_planned_twice: "doubled",
    an_older_epoch_answered: "stale",
    a_part_still_waits: "stuck",
    parts_are_seen_in_the_wrong_order: "order",
    a_write_ran_twice: "doubled",
    a_write_ran_under_two_numbers: "doubled",
    a_write_that_counts_as_done_was_not: "lost",
    a_doubt_is_hidden: "hidden",
    a_doubt_has_no_cause: "doubtful",
    a_position_moved_back: "stale",
    more_was_confirmed_than_is_stored: "lost",
    an_older_leader_stored_after_the_claim: "stale",
    a_notice_is_said_twice: "doubled",
    a_notice_is_not_said: "lost",
    a_working_message_stays: "changed",
    a_turn_has_two_working_messages: "doubled",
    people_are_read_in_another_order: "order",
    a_new_chat_is_the_old_one: "changed",
    a_chat_is_left_that_was_to_stay: "changed",
    a_chat_is_left_in_which_a_turn_runs: "changed",
    a_turn_fails_without_any_cause: "lost",
    an_answer_is_cut: "changed",
    a_model_reads_two_chats: "admission",
    a_write_is_under_way_for_ever: "stuck",
    a_write_that_counts_as_failed_happened: "changed",
}


@pytest.mark.parametrize(("broken", "rule"), BROKEN.items(), ids=[each.__name__ for each in BROKEN])
def test_a_broken_promise_is_found_with_its_history(broken: Callable[[Evidence], None], rule: str) -> None:
    evidence = right()
    broken(evidence)
    found = check(evidence)
    assert rule in {violation.rule for violation in found}
    assert all(violation.sentence for violation in found)


def test_the_history_of_a_violation_holds_what_concerns_it_and_nothing_else() -> None:
    evidence = right()
    other = right().chats[0]
    other.id, other.said = "6", [asked("other")]
    other.seen = [Seen("20", False, "echo other", 1.0), Seen("21", True, "pong", 2.0, 3.0)]
    evidence.chats.append(other)
    evidence.chats[0].inbound = []
    (lost,) = [violation for violation in check(evidence) if "ping was stored" in violation.sentence]
    assert "5 says 'echo ping'" in str(lost)
    assert "other" not in str(lost)


def test_a_working_message_whose_number_was_lost_may_stay_behind() -> None:
    evidence = right()
    a_doubt_is_hidden(evidence)
    evidence.listed = frozenset({1})
    evidence.chats[0].seen = [
        evidence.chats[0].seen[0], Seen("10x", True, WORKING, 1.9), Seen("11", True, "pong", 2.0)
    ]  # fmt: skip
    assert check(evidence) == []
