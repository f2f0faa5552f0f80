"""What a failed call means for a planned part."""

from typing import Any

import pytest

from services.owner.outcomes import backoff, outcome_of
from shared.config.sections import Delivery as DeliverySettings
from shared.domain.errors import (
    AddonNotRunning,
    Bug,
    Deadline,
    Failure,
    OutcomeUnknown,
    PlatformLimited,
    PlatformRefused,
    PlatformUnavailable,
)
from shared.domain.records import Delivery

SETTINGS = DeliverySettings()


def part(
    action: str = "send", *, markup: str = "MarkdownV2", age: float = 1.0, attempts: int = 1
) -> Delivery:
    body = {"text": "Room 2 \\- off\\.", "markup": markup, "plain": "Room 2 - off."}
    return Delivery(
        7, "bnd_1", "5001", "", "", "answer", action, body, attempts, age, 6, "41", 3, 1, "telegram", "telegram", 1  # type: ignore[arg-type]
    )  # fmt: skip


@pytest.mark.parametrize("failure", [OutcomeUnknown("x"), Deadline("x"), Bug("x")])
def test_a_send_that_may_have_happened_is_unknown_and_never_planned_again(failure: Failure) -> None:
    assert outcome_of(part("send"), failure, SETTINGS).state == "unknown"


@pytest.mark.parametrize(
    "failure", [OutcomeUnknown("x"), Deadline("x"), PlatformUnavailable("x"), AddonNotRunning("x")]
)
def test_an_edit_is_repeated_since_it_does_no_harm(failure: Failure) -> None:
    result = outcome_of(part("edit"), failure, SETTINGS)
    assert (result.state, result.action) == ("planned", None)
    assert result.wait_seconds


def test_a_send_that_certainly_did_not_happen_is_tried_again_later() -> None:
    result = outcome_of(part("send", attempts=3), PlatformUnavailable("x"), SETTINGS)
    assert (result.state, result.wait_seconds) == ("planned", backoff(3, SETTINGS))


@pytest.mark.parametrize("action", ["send", "edit"])
def test_what_waits_for_an_addon_goes_soon_after_it_is_back_however_long_it_was_away(action: str) -> None:
    result = outcome_of(part(action, attempts=12), AddonNotRunning("x"), SETTINGS)
    assert (result.state, result.wait_seconds) == ("planned", 1.0)


def test_a_part_that_is_too_old_is_recorded_as_failed() -> None:
    old = part("send", age=SETTINGS.give_up_seconds + 1)
    assert outcome_of(old, PlatformUnavailable("x"), SETTINGS).state == "failed"


@pytest.mark.parametrize("action", ["send", "edit"])
def test_refused_markup_goes_again_as_plain_text_without_backslashes(action: str) -> None:
    result = outcome_of(part(action), PlatformRefused("x", reason="markup"), SETTINGS)
    assert result.state == "planned"
    assert result.body == {"text": "Room 2 - off.", "markup": "", "plain": "Room 2 - off."}


def test_plain_text_that_is_refused_as_markup_fails_instead_of_going_round_for_ever() -> None:
    assert (
        outcome_of(part("send", markup=""), PlatformRefused("x", reason="markup"), SETTINGS).state == "failed"
    )


@pytest.mark.parametrize("reason", ["gone", "scope", "too_long", "other"])
def test_an_edit_that_is_refused_for_good_becomes_a_new_message(reason: Any) -> None:
    result = outcome_of(part("edit"), PlatformRefused("x", reason=reason), SETTINGS)
    assert (result.state, result.action) == ("planned", "send")


def test_a_send_to_a_chat_that_is_gone_fails() -> None:
    assert outcome_of(part("send"), PlatformRefused("x", reason="gone"), SETTINGS).state == "failed"


def test_the_wait_of_the_platform_is_kept() -> None:
    result = outcome_of(part("edit"), PlatformLimited("x", seconds=30), SETTINGS)
    assert (result.state, result.wait_seconds) == ("planned", 30)


def test_pauses_double_and_end_at_the_longest() -> None:
    pauses = [backoff(n, SETTINGS) for n in (1, 2, 3, 50)]
    assert pauses == [0.5, 1.0, 2.0, 30.0]
