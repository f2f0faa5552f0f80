"""Requests and answers held against the written contract; used with validation only."""

from typing import Any

import orjson

from services.simulators.contracts import Contract, Violation
from services.simulators.telegram.errors import ApiError, bad_request
from services.simulators.telegram.media import Upload

_EMPTY = {
    "chat_id": "chat_id is empty",
    "text": "message text is empty",
    "file_id": "file_id not specified",
    "photo": "there is no photo in the request",
    "document": "there is no document in the request",
}
_OWN_WORDS = {"text": "text is too long", "caption": "text is too long"}


class Checks:
    def __init__(self, contract: Contract) -> None:
        self._contract = contract

    def request(self, method: str, params: dict[str, Any]) -> None:
        """Raises the platform's 400 for parameters that the contract does not allow."""
        plain = {
            name: f"attach://{name}" if isinstance(value, Upload) else value
            for name, value in params.items()
            if not (isinstance(value, Upload) and self._is_attachment(params, name))
        }
        violation = self._contract.violation(f"{method}.params", _with_official_mode(plain))
        if violation is not None:
            raise bad_request(_words(violation))

    def answer(self, method: str, body: bytes) -> None:
        """Raises a 500 that names what is wrong: the simulator itself has a bug then."""
        violation = self._contract.violation(f"{method}.response", orjson.loads(body))
        if violation is not None:
            raise ApiError(
                500, f"Internal Server Error: simulator answer breaks {method}: {violation.message}"
            )

    def update(self, update: dict[str, Any]) -> Violation | None:
        return self._contract.violation("Update", {"update_id": 1, **update})

    @staticmethod
    def _is_attachment(params: dict[str, Any], name: str) -> bool:
        return f"attach://{name}" in params.values()


def _with_official_mode(params: dict[str, Any]) -> dict[str, Any]:
    """The platform compares `parse_mode` without case, the contract spells it; an empty one means none."""
    mode = params.get("parse_mode")
    if not isinstance(mode, str):
        return params
    official = {"markdownv2": "MarkdownV2", "html": "HTML", "markdown": "Markdown"}.get(mode.lower(), mode)
    rest = {name: value for name, value in params.items() if name != "parse_mode"}
    return {**rest, "parse_mode": official} if official else rest


def _words(violation: Violation) -> str:
    if violation.field == "parse_mode" and violation.rule == "enum":
        return "unsupported parse_mode"
    if violation.rule in {"required", "minLength"} and violation.field in _EMPTY:
        return _EMPTY[violation.field]
    if violation.rule == "maxLength" and violation.field in _OWN_WORDS:
        return _OWN_WORDS[violation.field]
    return f"wrong parameter {violation.field} in request"
