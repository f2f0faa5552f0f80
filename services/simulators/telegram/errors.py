"""Error answers of the Bot API, with the server's own words."""

from typing import Any


class ApiError(Exception):
    """Answered as `{"ok": false, "error_code", "description", "parameters"?}` with the same HTTP status."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"ok": False, "error_code": self.code, "description": self.description}
        if self.parameters:
            body["parameters"] = self.parameters
        return body


def bad_request(reason: str, **parameters: int) -> ApiError:
    return ApiError(400, f"Bad Request: {reason}", **parameters)


def conflict(reason: str) -> ApiError:
    return ApiError(409, f"Conflict: {reason}")


def flood(seconds: int) -> ApiError:
    return ApiError(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)


UNAUTHORIZED = "Unauthorized"
MALFORMED = "Unauthorized: invalid token specified"
NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same "
    "as a current content and reply markup of the message"
)
OTHER_READER = "terminated by other getUpdates request; make sure that only one bot instance is running"
WEBHOOK_ACTIVE = (
    "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
)
WEBHOOK_SET = "terminated by setWebhook request"

REFUSALS: dict[str, tuple[int, str]] = {
    "blocked": (403, "Forbidden: bot was blocked by the user"),
    "deactivated": (403, "Forbidden: user is deactivated"),
    "not_started": (403, "Forbidden: bot can't initiate conversation with a user"),
    "is_bot": (403, "Forbidden: bot can't send messages to bots"),
    "kicked_group": (403, "Forbidden: bot was kicked from the group chat"),
    "kicked_supergroup": (403, "Forbidden: bot was kicked from the supergroup chat"),
    "kicked_channel": (403, "Forbidden: bot was kicked from the channel chat"),
    "not_member": (403, "Forbidden: bot is not a member of the supergroup chat"),
    "deleted_group": (403, "Forbidden: the group chat was deleted"),
    "no_text_rights": (400, "Bad Request: not enough rights to send text messages to the chat"),
    "no_photo_rights": (400, "Bad Request: not enough rights to send photos to the chat"),
}
"""Why a chat refuses everything the bot does there; the name is what the control API is told."""
