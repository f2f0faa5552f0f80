"""What is the command for a new chat, and who may give it where."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.frontend.turns.commands import new_chat, objection
from services.frontend.turns.verdicts import judge
from shared.config.sections import Limits
from shared.domain.records import Binding, Conversation
from shared.i18n import say
from shared.sdk.ops import FileRef, Inbound, Person
from shared.store.admission import LaneFacts, Waiting

BINDING = Binding("bnd_1", "usr_1", "agt_1", "k", "a", "Bot", enabled=True, allow=("5001",))
FACTS = LaneFacts(BINDING, "Sam", has_agent=True, has_model=True, owner_may=True)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def message(text: str = "/new", **fields: Any) -> Inbound:
    return Inbound(**{"chat": "-9", "sender": Person("5001"), "text": text, "addressed": True, **fields})


@pytest.mark.parametrize("text", ["/new", "/NEW", "!New", "  /new \n", "\t!new\u00a0"])
def test_both_forms_are_the_command_in_any_case_with_space_around(text: str) -> None:
    assert new_chat(message(text)) == text.strip().lower()


@pytest.mark.parametrize(
    "text",
    ["", "new", "//new", "/new please summarise", "/newer", "/new@OtherBot", "! new", "/ new", "/new\n/new"],
)
def test_anything_else_is_ordinary(text: str) -> None:
    assert new_chat(message(text)) == ""


@given(st.text())
def test_no_longer_text_is_ever_the_command(text: str) -> None:
    assert not new_chat(message(f"/new {text} x"))


def test_with_a_file_it_is_ordinary() -> None:
    assert not new_chat(message(files=[FileRef("f1")]))
    assert not new_chat(message(unsupported="venue"))


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize(
    ("mode", "thread", "direct", "needs"),
    [
        ("sender", "", False, "nothing"),
        ("window", "", False, "nothing"),
        ("chat", "", False, "pairing"),
        ("thread", "", False, "another mode"),
        ("sender", "7", False, "pairing"),
        ("chat", "7", False, "pairing"),
        ("window", "7", False, "pairing"),
        ("thread", "7", False, "pairing"),
        ("sender", "", True, "nothing"),
        ("chat", "", True, "nothing"),
        ("thread", "", True, "another mode"),
        ("thread", "7", True, "nothing"),
        ("chat", "7", True, "nothing"),
    ],
)
def test_a_chat_of_several_people_is_left_at_the_word_of_a_paired_person(
    mode: Conversation, thread: str, direct: bool, needs: str, paired: bool
) -> None:
    said = objection(
        replace(BINDING, conversation=mode), message(thread=thread, direct=direct), paired=paired
    )
    expected = {
        "nothing": "",
        "pairing": "" if paired else say("new_chat_paired"),
        "another mode": say("new_chat_always"),
    }
    assert said == expected[needs]


def judged(text: str = "/new", **fields: Any) -> tuple[str, str, str]:
    verdict = judge(FACTS, Waiting(1, message(text, **fields), 0, noticed=False, received_at=NOW), Limits())
    return verdict.state, verdict.reason, verdict.command


def test_the_command_is_consumed() -> None:
    assert judged() == ("consumed", "new_chat", "/new")
    assert judged("!NEW") == ("consumed", "new_chat", "!new")


def test_a_stranger_and_one_who_does_not_address_the_bot_give_no_command() -> None:
    assert judged(sender=Person("7")) == ("refused", "not_listed", "")
    assert judged(addressed=False) == ("unaddressed", "not_addressed", "")
