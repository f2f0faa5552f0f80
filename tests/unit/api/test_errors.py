"""What an API client hears."""

import msgspec
import pytest

from services.frontend.api.connector_types import BindingNew, checked_allow, checked_options, checked_token
from services.frontend.api.errors import ApiError, failed, of_validation
from shared.domain import errors
from shared.domain.errors import Failure
from shared.sdk.manifest import Kind, Option

FAILURES = [
    (errors.OwnerUnreachable("m"), 503, "owner_unavailable", "owner_unreachable"),
    (errors.OwnerUnready("m"), 503, "owner_unavailable", "owner_unready"),
    (errors.OwnerFenced("m"), 503, "owner_unavailable", "owner_fenced"),
    (errors.AddonNotRunning("m"), 503, "addon_unavailable", "addon_not_running"),
    (errors.PlatformUnavailable("m"), 503, "platform_unavailable", "platform_unavailable"),
    (errors.PlatformLimited("m", seconds=2), 503, "platform_unavailable", "platform_limited"),
    (errors.Deadline("m"), 503, "platform_unavailable", "deadline"),
    (errors.PlatformRefused("m", reason="scope"), 400, "invalid_request_error", "scope"),
    (errors.PlatformRefused("m", reason="gone"), 404, "not_found_error", "platform_refused"),
    (errors.Denied("m"), 403, "permission_error", "denied"),
    (errors.CallerFenced("m"), 409, "conflict_error", "caller_fenced"),
    (errors.TooLarge("m"), 413, "too_large", "too_large"),
    (errors.OutcomeUnknown("m"), 502, "outcome_unknown", "outcome_unknown"),
    (errors.Bug("internal words"), 500, "server_error", None),
]


@pytest.mark.parametrize(("failure", "status", "kind", "code"), FAILURES, ids=str)
def test_each_failure_of_the_closed_set_has_its_answer(
    failure: Failure, status: int, kind: str, code: str | None
) -> None:
    answer = failed(failure)
    assert (answer.status, answer.body.type, answer.body.code) == (status, kind, code)
    assert "internal" not in answer.body.message


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        (b'{"kind": "t", "name": "n", "surprise": 1}', "surprise"),
        (b'{"name": "n"}', "kind"),
        (b'{"kind": "t", "name": "n", "allow": ["a", 5]}', "allow[1]"),
        (b'{"kind": "t", "name": "n", "options": {"a": 1}}', "options[...]"),
    ],
)
def test_a_body_that_does_not_fit_names_the_field(raw: bytes, param: str) -> None:
    with pytest.raises(msgspec.ValidationError) as problem:
        msgspec.json.decode(raw, type=BindingNew)
    assert of_validation(problem.value).body.param == param


def test_an_allowlist_keeps_each_entry_once_and_as_it_was_written() -> None:
    assert checked_allow([" 5 ", "@Ada", "@ada", "-100"]) == ["5", "@Ada", "-100"]
    for wrong in ("", "  ", "a\nb", "a\u2028b"):
        with pytest.raises(ApiError):
            checked_allow([wrong])


def test_a_token_is_one_word_and_is_never_quoted() -> None:
    assert checked_token(" 1:x \n") == "1:x"
    with pytest.raises(ApiError) as refused:
        checked_token("1:x y")
    assert "1:x" not in refused.value.body.message


def test_options_are_those_that_the_add_on_declares() -> None:
    kind = Kind(id="t", title="T", delivery="pull", options=(Option("color", "Color", ("red", "green")),))
    checked_options(kind, {"color": "green"})
    for wrong in ({"color": "blue"}, {"size": "1"}):
        with pytest.raises(ApiError):
            checked_options(kind, wrong)
