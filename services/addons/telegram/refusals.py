"""One function turns an error answer of the Bot API into a failure of the closed set.

The code and the parameters decide; a description is compared only where one code has several meanings.
Source: core.telegram.org/bots/api, "Making requests", and the error texts of the server.
"""

import re

from services.addons.telegram.api import Parameters, Reply
from shared.sdk.errors import (
    Failure,
    OutcomeUnknown,
    PlatformLimited,
    PlatformRefused,
    PlatformUnavailable,
    RefusalReason,
)
from shared.text.redaction import scrub

#: part of a 400 or 403 description -> what it means for the host; the first that fits decides
_MEANINGS: tuple[tuple[str, RefusalReason], ...] = (
    ("can't parse entities", "markup"),
    ("unsupported parse_mode", "markup"),
    ("too long", "too_long"),
    ("not enough rights", "scope"),
    ("topic_closed", "scope"),
    ("messages to bots", "scope"),
    ("file", "file"),
    ("photo", "file"),
    ("image_process_failed", "file"),
    ("not found", "gone"),
    ("message can't be", "gone"),
)
#: refusals that say that the wanted state is there already (case TG-08)
_SETTLED = {
    "editMessageText": "message is not modified",
    "deleteMessage": "message to delete not found",
}
_ADDRESS = re.compile(r"\S*(?:://|/bot)\S*")
_DEFAULT_WAIT_SECONDS = 1.0


def is_settled(method: str, reply: Reply) -> bool:
    """Whether the refusal is as good as a success: nothing was left to change or to delete."""
    wanted = _SETTLED.get(method)
    return wanted is not None and reply.error_code == 400 and wanted in reply.description


def failure_of(status: int, reply: Reply, *, method: str, token: str, retry_after: str = "") -> Failure:
    """What `reply`, or the HTTP `status` when the body was no JSON, means; holds neither token nor address."""
    code = reply.error_code or status
    about = reply.parameters or Parameters()
    words = _words(reply.description, token)
    if about.migrate_to_chat_id is not None:
        detail = {"migrated_to": str(about.migrate_to_chat_id)}
        return PlatformRefused("the group has a new ID", reason="migrated", detail=detail)
    if code == 429:
        return PlatformLimited("Telegram asked to wait", seconds=about.retry_after or _seconds(retry_after))
    if code >= 500:
        return unanswered(method)
    if code == 409:
        detail_409 = {"webhook": True} if "webhook" in words.lower() else {}
        return PlatformRefused(
            "another program reads this bot's messages", reason="conflict", detail=detail_409
        )
    if code == 401 or (code == 404 and "method not found" not in words):
        return PlatformRefused(
            "Telegram does not accept the token: ask @BotFather for the one that is valid now",
            reason="credentials",
        )
    return PlatformRefused(f"Telegram refused: {words or code}", reason=_reason(code, words))


def unanswered(method: str) -> Failure:
    """The call left and no usable answer came; only a second send would be seen twice."""
    if method.startswith("send") and method not in {"sendChatAction", "sendMessageDraft"}:
        return OutcomeUnknown("Telegram's answer was lost")
    return PlatformUnavailable("Telegram did not answer")


def _reason(code: int, words: str) -> RefusalReason:
    if code == 413:
        return "file"
    if code not in {400, 403}:
        return "other"
    lower = words.lower()
    for part, reason in _MEANINGS:
        if part in lower:
            return reason
    # Every other 403 says that the bot has no way into the chat any more: blocked, kicked, deleted.
    return "gone" if code == 403 else "other"


def _words(description: str, token: str) -> str:
    """The platform's own words, short, without token and addresses (case TG-19)."""
    return _ADDRESS.sub("[address]", scrub(description, (token,)))[:200]


def _seconds(header: str) -> float:
    return float(header) if header.isdecimal() and len(header) < 7 else _DEFAULT_WAIT_SECONDS
