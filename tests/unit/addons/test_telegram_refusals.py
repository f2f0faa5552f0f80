"""Every error answer of the written contract, and what the host is told."""

import json
from typing import Any

import msgspec
import pytest

from services.addons.telegram.api import Reply
from services.addons.telegram.refusals import failure_of, is_settled
from shared.sdk.errors import (
    Failure,
    OutcomeUnknown,
    PlatformLimited,
    PlatformRefused,
    PlatformUnavailable,
)
from tests.support.spec import spec_path

TOKEN = "111111:TESTSECRET"
ENTRIES: list[Any] = json.loads(spec_path("contracts/telegram/errors.json").read_text())["errors"]

#: start of the description -> reason; the longest start that fits is meant
REASONS = {
    "Unauthorized": "credentials",
    "Not Found": "credentials",
    "Not Found: method not found": "other",
    "Conflict": "conflict",
    "Bad Request: can't parse entities": "markup",
    "Bad Request: unsupported parse_mode": "markup",
    "Bad Request: message to": "gone",
    "Bad Request: message can't be": "gone",
    "Bad Request: message thread not found": "gone",
    "Bad Request: TOPIC_CLOSED": "scope",
    "Bad Request: message text is empty": "other",
    "Bad Request: text is too long": "too_long",
    "Bad Request: message is too long": "too_long",
    "Bad Request: message caption is too long": "too_long",
    "Bad Request: message is not modified": "other",
    "Bad Request: chat not found": "gone",
    "Bad Request: chat_id is empty": "other",
    "Bad Request: group chat was upgraded": "migrated",
    "Forbidden": "gone",
    "Forbidden: bot can't send messages to bots": "scope",
    "Bad Request: not enough rights": "scope",
    "Bad Request: file": "file",
    "Bad Request: invalid file_id": "file",
    "Bad Request: wrong file_id": "file",
    "Bad Request: there is no photo": "file",
    "Bad Request: PHOTO_INVALID_DIMENSIONS": "file",
    "Bad Request: IMAGE_PROCESS_FAILED": "file",
    "Request Entity Too Large": "file",
    "Bad Request: wrong parameter action": "other",
    "Bad Request: REACTION_INVALID": "other",
    "Bad Request: TEXTDRAFT_PEER_INVALID": "other",
}


def reply(body: dict[str, Any]) -> Reply:
    return msgspec.convert(body, Reply)


def outcome(entry: Any, method: str) -> Failure:
    return failure_of(entry["http_status"], reply(entry["body"]), method=method, token=TOKEN)


def reason_of(description: str) -> str:
    return REASONS[max((start for start in REASONS if description.startswith(start)), key=len)]


def described(entry: Any) -> str:
    return f"{entry['http_status']} {entry['body']['description']}"


@pytest.mark.parametrize("entry", ENTRIES, ids=described)
def test_every_documented_error_has_its_meaning(entry: Any) -> None:
    method = entry["methods"][0].replace("*", "getUpdates")
    failure = outcome(entry, method)
    status = entry["http_status"]
    if status == 429:
        assert isinstance(failure, PlatformLimited)
        assert failure.seconds == entry["body"]["parameters"]["retry_after"]
    elif status >= 500:
        assert isinstance(failure, PlatformUnavailable)
        assert isinstance(outcome(entry, "sendMessage"), OutcomeUnknown)
    else:
        assert isinstance(failure, PlatformRefused)
        assert failure.reason == reason_of(entry["body"]["description"])


def test_every_documented_error_is_expected_here() -> None:
    described = [entry["body"]["description"] for entry in ENTRIES if entry["http_status"] < 429]
    used = {start for start in REASONS if any(each.startswith(start) for each in described)}
    assert used == set(REASONS)


def test_a_conflict_with_a_webhook_says_so() -> None:
    conflicts = [entry for entry in ENTRIES if entry["http_status"] == 409]
    details = {
        entry["body"]["description"]: outcome(entry, "getUpdates").data()["detail"] for entry in conflicts
    }
    assert [detail for text, detail in details.items() if "ebhook" in text] == [{"webhook": True}] * 2
    assert [detail for text, detail in details.items() if "ebhook" not in text] == [{}]


def test_a_migration_names_the_new_chat() -> None:
    [entry] = [entry for entry in ENTRIES if "upgraded" in entry["body"]["description"]]
    assert outcome(entry, "sendMessage").data()["detail"] == {"migrated_to": "-1001234567890"}


@pytest.mark.case("TG-08")
@pytest.mark.parametrize(
    ("method", "start"),
    [("editMessageText", "message is not modified"), ("deleteMessage", "message to delete not found")],
)
def test_a_refusal_of_what_is_so_already_is_a_success(method: str, start: str) -> None:
    [entry] = [entry for entry in ENTRIES if start in entry["body"]["description"]]
    assert is_settled(method, reply(entry["body"]))
    assert not is_settled("sendMessage", reply(entry["body"]))


@pytest.mark.parametrize(("header", "seconds"), [("35", 35.0), ("", 1.0), ("soon", 1.0), ("9" * 30, 1.0)])
def test_a_wait_without_json_is_read_from_the_header(header: str, seconds: float) -> None:
    failure = failure_of(429, Reply(), method="sendMessage", token=TOKEN, retry_after=header)
    assert isinstance(failure, PlatformLimited)
    assert failure.seconds == seconds


def test_an_html_body_is_judged_by_its_status() -> None:
    assert isinstance(failure_of(502, Reply(), method="getMe", token=TOKEN), PlatformUnavailable)
    assert failure_of(413, Reply(), method="sendPhoto", token=TOKEN).data()["reason"] == "file"


@pytest.mark.case("TG-19")
def test_an_error_body_that_repeats_the_address_does_not_tell_it() -> None:
    text = f"Bad Request: https://api.telegram.org/bot{TOKEN}/sendMessage failed, see /bot{TOKEN}/x {TOKEN}"
    failure = failure_of(400, Reply(description=text, error_code=400), method="sendMessage", token=TOKEN)
    assert "TESTSECRET" not in f"{failure} {failure.message} {failure.data()}"
    assert "api.telegram.org" not in failure.message
