"""Problems of a model request. `code` names the fixed sentence for a person (MSG-08); `detail` is for the log."""

from typing import Any


class ModelProblem(Exception):
    """The model server gave no answer; `code` is a key of the sentence catalog."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail


def problem_of(status: int, body: Any) -> ModelProblem:
    """The problem behind an error answer of a server; the forms of the body differ between servers."""
    code, message = _code_and_message(body)
    detail = f"{status} {code} {message}".strip()[:300]
    if code == "insufficient_quota":
        return ModelProblem("model_quota", detail)
    if code == "context_length_exceeded" or "context length" in message.lower():
        return ModelProblem("model_too_long", detail)
    if code == "model_not_found" or status == 404:
        return ModelProblem("model_missing", detail)
    if status in {401, 403}:
        return ModelProblem("model_key", detail)
    if status == 429 or status >= 500:
        return ModelProblem("model_busy", detail)
    return ModelProblem("model_refused", detail)


def _code_and_message(body: Any) -> tuple[str, str]:
    if not isinstance(body, dict):
        return "", ""
    error = body.get("error", body)
    if isinstance(error, str):
        return "", error
    if not isinstance(error, dict):
        return "", ""
    message = error.get("message") or error.get("detail") or ""
    return str(error.get("code") or ""), message if isinstance(message, str) else ""
