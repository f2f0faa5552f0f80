"""What a part in doubt says to the owner of its binding."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from services.frontend.doubts import QUOTED, DoubtCode, obstacle, why
from services.owner.outcomes import outcome_of
from shared.config.sections import Delivery as DeliverySettings
from shared.domain import errors
from shared.domain.records import Delivery
from shared.store.doubtful import Doubt

DOUBT = Doubt(
    1, "bnd_1", "5001", "", "", None, None, 0, 0, "answer", "send", {"plain": "hi"}, "unknown", {},
    datetime(2026, 1, 1, tzinfo=UTC), None,
)  # fmt: skip
OLD = Delivery(
    1, "bnd_1", "5001", "", "", "answer", "send", {"plain": "hi"}, 1, 1e9, None, "", None, 0, "k", "a", 1
)
FAILURES: list[errors.Failure] = [
    *(errors.PlatformRefused("no", reason=reason) for reason in get_args(errors.RefusalReason)),
    *(
        kind("no")
        for kind in errors.Failure.__subclasses__()
        if kind not in {errors.PlatformRefused, errors.PlatformLimited}
    ),
    errors.PlatformLimited("wait", seconds=1),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda f: getattr(f, "reason", f.code))
@pytest.mark.parametrize("action", ["send", "edit"])
def test_every_failure_that_can_be_recorded_has_a_code_and_a_sentence(
    failure: errors.Failure, action: Any
) -> None:
    result = outcome_of(replace(OLD, action=action), failure, DeliverySettings())
    if result.state == "planned":
        return
    code, sentence = why(result.state, result.error or {})
    assert code in get_args(DoubtCode)
    assert sentence.endswith(".")
    assert "{" not in sentence


def test_what_may_be_visible_says_so() -> None:
    for code in ("outcome_unknown", "deadline", "bug"):
        assert "may be visible already" in why("unknown", {"code": code}).sentence
    assert "may be visible" not in why("failed", {"code": "bug"}).sentence


def test_a_refusal_without_a_known_reason_quotes_the_platform() -> None:
    error = {"code": "platform_refused", "reason": "other", "message": "Telegram refused: {odd} words."}
    code, sentence = why("failed", error)
    assert code == "refused"
    assert "Telegram refused: {odd} words" in sentence


@pytest.mark.parametrize("length", [QUOTED, QUOTED + 1, 100_000])
def test_what_a_platform_said_is_quoted_at_a_length_that_can_be_shown(length: int) -> None:
    error = {"code": "platform_refused", "reason": "other", "message": "x" * length}
    sentence = why("failed", error).sentence
    assert sentence.count("x") == (QUOTED if length == QUOTED else QUOTED - 1)
    assert ("…" in sentence) == (length > QUOTED)


@pytest.mark.parametrize("state", ["failed", "unknown"])
@pytest.mark.parametrize("failure", FAILURES, ids=lambda f: getattr(f, "reason", f.code))
def test_a_working_message_is_never_asked_to_be_sent_again(state: str, failure: errors.Failure) -> None:
    error = {"code": failure.code, "reason": getattr(failure, "reason", ""), "message": "no"}
    told = why(state, error, "working")
    assert told.code == why(state, error).code
    assert "again" not in told.sentence
    assert ("may be visible" in told.sentence) == (state == "unknown")


def test_a_text_may_be_sent_again_whether_it_failed_or_is_unknown() -> None:
    assert obstacle(DOUBT) is None
    assert obstacle(replace(DOUBT, state="failed", purpose="notification")) is None


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"purpose": "working"}, "step"),
        ({"action": "delete"}, "removal"),
        ({"binding_off": ""}, "binding_off"),
        ({"state": "resent"}, "not_doubtful"),
        ({"state": "dismissed"}, "not_doubtful"),
        ({"state": "sent"}, "not_doubtful"),
    ],
)
def test_what_cannot_be_sent_again_says_why(change: dict[str, Any], code: str) -> None:
    against = obstacle(replace(DOUBT, **change))
    assert against is not None
    assert against.code == code
    assert against.sentence


def test_a_connection_that_is_off_says_how_to_mend_it() -> None:
    against = obstacle(replace(DOUBT, binding_off="Put in a new token and switch it on again."))
    assert against is not None
    assert "Put in a new token" in against.sentence
