"""Decides whether a history is right: what people saw, what the platform was asked, and what is stored at the end.

Source: architecture, section 4, "What is promised".
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.chaos.evidence import Evidence
from tests.chaos.history import Violation, history
from tests.chaos.rules import answers, effects, messages, notices

Rule = Callable[[Evidence], Iterator[Violation]]

RULES: tuple[Rule, ...] = (
    messages.nothing_is_lost_or_doubled_on_the_way_in,
    messages.only_who_may_is_heard,
    messages.every_message_is_covered_by_one_turn,
    answers.every_answer_is_seen_once,
    answers.order_holds,
    effects.no_write_ran_twice,
    effects.doubts_are_shown_and_explained,
    effects.no_stale_leader_wrote,
    notices.each_notice_is_said_once,
    answers.a_working_message_becomes_the_answer,
    messages.people_are_read_in_order,
    notices.a_new_chat_is_new_and_waits_for_the_answer,
    answers.an_answer_is_what_the_model_said,
    messages.a_model_reads_one_chat_at_a_time,
    effects.a_write_is_recorded_as_it_went,
)


def check(evidence: Evidence) -> list[Violation]:
    """All violations, each with the shortest history that shows it."""
    return [
        replace(violation, history=tuple(history(evidence, violation)))
        for rule in RULES
        for violation in rule(evidence)
    ]
