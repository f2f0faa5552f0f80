"""Who is answered, who hears a sentence, and who hears nothing: decided from plain facts."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.frontend.turns.verdicts import judge, judge_all, listed_as
from shared.config.sections import Limits
from shared.domain.records import Binding
from shared.sdk.ops import FileRef, Inbound, Person
from shared.store.admission import LaneFacts, Waiting

BINDING = Binding(
    "bnd_1", "usr_1", "agt_1", "telegram", "telegram", "Bot", enabled=True, allow=("5001", "@Bob", "-4001")
)
FACTS = LaneFacts(BINDING, "Sam", has_agent=True, has_model=True, owner_may=True)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = Limits()


def waiting(recent: int = 0, noticed: bool = False, **fields: Any) -> Waiting:
    message = Inbound(
        **{"chat": "5001", "sender": Person("5001", "Ada"), "id": "1", "text": "hi", "direct": True, **fields}
    )
    return Waiting(1, message, recent, noticed, NOW)


def test_a_listed_person_is_admitted() -> None:
    verdict = judge(FACTS, waiting(), LIMITS)
    assert (verdict.state, verdict.badge, verdict.notice) == ("admitted", "listed", "")


@pytest.mark.parametrize(
    ("sender", "chat", "badge"),
    [
        (Person("5001"), "9", "listed"),
        (Person("7", handle="bob"), "9", "listed"),
        (Person("7", handle="BOB"), "9", "listed"),
        (Person("7"), "-4001", "channel"),
        (Person("7", name="5001"), "9", ""),
        (Person("7", name="@Bob"), "9", ""),
        (Person("7"), "9", ""),
    ],
)
def test_the_allowlist_knows_ids_handles_and_chats_and_never_display_names(
    sender: Person, chat: str, badge: str
) -> None:
    assert listed_as(BINDING, Inbound(chat, sender)) == badge


def test_accept_any_admits_everybody_and_says_so() -> None:
    binding = replace(BINDING, allow=(), accept_any=True)
    assert listed_as(binding, Inbound("9", Person("7"))) == "anyone"


def test_a_stranger_hears_nothing_whatever_the_message() -> None:
    stranger = Person("7", "Eve")
    tries: list[dict[str, Any]] = [
        {"text": "x" * 9000},
        {"unsupported": "sticker", "text": ""},
        {"text": ""},
        {},
    ]
    for fields in tries:
        verdict = judge(FACTS, waiting(sender=stranger, chat="7", **fields), LIMITS)
        assert (verdict.state, verdict.reason, verdict.notice) == ("refused", "not_listed", "")


def test_other_bots_are_never_answered() -> None:
    verdict = judge(FACTS, waiting(sender=Person("5001", is_bot=True)), LIMITS)
    assert (verdict.state, verdict.reason, verdict.notice) == ("refused", "bot", "")


def test_a_group_message_that_nobody_addressed_is_only_counted() -> None:
    verdict = judge(FACTS, waiting(chat="-4001", direct=False), LIMITS)
    assert (verdict.state, verdict.reason) == ("unaddressed", "not_addressed")


def test_eight_thousand_characters_are_read_and_one_more_is_refused_with_a_sentence() -> None:
    assert judge(FACTS, waiting(text="ä" * 8000), LIMITS).state == "admitted"
    refused = judge(FACTS, waiting(text="ä" * 8001), LIMITS)
    assert (refused.state, refused.reason) == ("refused", "too_long")
    assert "8000" in refused.notice


def test_the_twenty_first_message_of_a_minute_is_dropped_with_one_notice() -> None:
    assert judge(FACTS, waiting(recent=19), LIMITS).state == "admitted"
    first, later = (
        judge(FACTS, waiting(recent=20), LIMITS),
        judge(FACTS, waiting(recent=20, noticed=True), LIMITS),
    )
    assert (first.state, first.reason, later.state) == ("refused", "rate", "refused")
    assert first.notice
    assert not later.notice


@pytest.mark.parametrize(
    "fields", [{"text": "/new"}, {"text": "x" * 9000}, {"text": "", "unsupported": "poll"}, {"text": " "}]
)
def test_what_is_answered_with_a_sentence_counts_like_a_message(fields: dict[str, Any]) -> None:
    verdicts = [verdict for _, verdict in judge_all(FACTS, [waiting(recent=17, **fields)] * 5, LIMITS)]
    assert [verdict.reason == "rate" for verdict in verdicts] == [False, False, False, True, True]
    assert [bool(verdict.notice or verdict.command) for verdict in verdicts] == [True] * 4 + [False]


def test_what_the_rate_refuses_and_what_is_for_nobody_does_not_count() -> None:
    aside = waiting(recent=19, chat="-5", direct=False, addressed=False)
    batch = [*[aside] * 3, waiting(recent=19)]
    assert [verdict.state for _, verdict in judge_all(FACTS, batch, LIMITS)][-1] == "admitted"


@pytest.mark.parametrize("kind", ["sticker", "poll", "location"])
def test_what_cannot_be_read_is_answered_with_a_sentence_and_no_turn(kind: str) -> None:
    verdict = judge(FACTS, waiting(text="", unsupported=kind), LIMITS)
    assert verdict.state == "consumed"
    assert "text" in verdict.notice


def test_the_caption_of_a_file_still_reaches_the_agent() -> None:
    verdict = judge(FACTS, waiting(text="look", files=[FileRef("f1")]), LIMITS)
    assert verdict.state == "admitted"
    assert "files" in verdict.notice


def test_a_binding_that_is_off_refuses_without_a_word() -> None:
    verdict = judge(replace(FACTS, binding=replace(BINDING, enabled=False)), waiting(), LIMITS)
    assert (verdict.state, verdict.notice) == ("refused", "")


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"has_agent": False}, "no_agent"),
        ({"has_model": False}, "no_model"),
        ({"owner_may": False}, "owner_off"),
    ],
)
def test_nothing_reaches_a_turn_when_owner_or_agent_cannot_answer(facts: dict[str, Any], reason: str) -> None:
    assert judge(replace(FACTS, **facts), waiting(), LIMITS).reason == reason


@given(
    name=st.text(max_size=30),
    text=st.text(max_size=200),
    handle=st.text(max_size=10),
    direct=st.booleans(),
    addressed=st.booleans(),
)
def test_no_name_and_no_text_ever_admits_a_stranger(
    name: str, text: str, handle: str, direct: bool, addressed: bool
) -> None:
    sender = Person("7", name, "" if handle.lower() == "bob" else handle)
    message = waiting(sender=sender, chat="7", text=text, direct=direct, addressed=addressed)
    assert judge(FACTS, message, LIMITS).state in {"refused", "unaddressed"}


def test_a_message_that_cannot_be_read_is_refused_without_a_word() -> None:
    verdict = judge(FACTS, replace(waiting(), readable=False), LIMITS)
    assert (verdict.state, verdict.reason, verdict.notice) == ("refused", "unreadable", "")
