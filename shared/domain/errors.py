"""The closed set of failures that travels from an add-on through the owner and the carrier to the API.

    Failure                      code                  what the caller may do
    ├── OwnerUnreachable         owner_unreachable     try later; nothing was executed
    ├── OwnerUnready             owner_unready         try later; nothing was executed
    ├── OwnerFenced              owner_fenced          try later, another owner took over; nothing was executed
    ├── CallerFenced             caller_fenced         stop: a newer turn or leader exists
    ├── AddonNotRunning          addon_not_running     try later; the add-on starts again or must be installed
    ├── PlatformRefused          platform_refused      act on `reason`; repeating the same call cannot help
    ├── PlatformLimited          platform_limited      repeat after `seconds`; nothing was executed
    ├── PlatformUnavailable      platform_unavailable  repeat with backoff; nothing was executed
    ├── Denied                   denied                the acting user lacks the right
    ├── OutcomeUnknown           outcome_unknown       never repeat blindly: it may have happened
    ├── TooLarge                 too_large             shorten it
    ├── Deadline                 deadline              a read may be repeated; a write becomes OutcomeUnknown
    └── Bug                      bug                   report it

`message` is a sentence for a person and never holds a secret, an address or message text.
Source: architecture, "The carrier".
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, get_args

RefusalReason = Literal[
    "credentials", "conflict", "gone", "markup", "scope", "too_long", "file", "migrated", "other"
]


class Failure(Exception):
    """Base of the closed set; a subclass exists because somebody acts on it."""

    code: ClassVar[str] = "bug"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def data(self) -> dict[str, Any]:
        """Fields besides `code` and `message`, as they travel."""
        return {}


class OwnerUnreachable(Failure):
    code = "owner_unreachable"


class OwnerUnready(Failure):
    code = "owner_unready"


class OwnerFenced(Failure):
    code = "owner_fenced"


class CallerFenced(Failure):
    code = "caller_fenced"


class AddonNotRunning(Failure):
    code = "addon_not_running"


class PlatformRefused(Failure):
    """The platform understood and said no. `detail` holds facts such as `migrated_to` or `webhook`."""

    code = "platform_refused"

    def __init__(
        self, message: str, *, reason: RefusalReason = "other", detail: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.reason: RefusalReason = reason
        self.detail = detail or {}

    def data(self) -> dict[str, Any]:
        return {"reason": self.reason, "detail": self.detail}


class PlatformLimited(Failure):
    """The platform asked to wait `seconds`; the call had no effect."""

    code = "platform_limited"

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds

    def data(self) -> dict[str, Any]:
        return {"seconds": self.seconds}


class PlatformUnavailable(Failure):
    code = "platform_unavailable"


class Denied(Failure):
    code = "denied"


class OutcomeUnknown(Failure):
    """A write left and no reply came. `operation` is the ID that was used in the first place."""

    code = "outcome_unknown"

    def __init__(self, message: str, *, operation: str = "") -> None:
        super().__init__(message)
        self.operation = operation

    def data(self) -> dict[str, Any]:
        return {"operation": self.operation}


class TooLarge(Failure):
    code = "too_large"


class Deadline(Failure):
    code = "deadline"


class Bug(Failure):
    code = "bug"


_BY_CODE: dict[str, type[Failure]] = {
    kind.code: kind
    for kind in (
        OwnerUnreachable, OwnerUnready, OwnerFenced, CallerFenced, AddonNotRunning, PlatformUnavailable,
        Denied, TooLarge, Deadline, Bug,
    )
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class WireFailure:
    """A failure as it travels between processes."""

    code: str
    message: str
    data: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, failure: Failure) -> "WireFailure":
        return cls(failure.code, failure.message, failure.data())

    def raised(self) -> Failure:
        """The exception again; a code or a field outside the closed set is a `Bug`."""
        if self.code == PlatformRefused.code:
            reason = self.data.get("reason", "other")
            known: RefusalReason = reason if reason in get_args(RefusalReason) else "other"
            detail = self.data.get("detail")
            return PlatformRefused(
                self.message, reason=known, detail=detail if isinstance(detail, dict) else {}
            )
        if self.code == PlatformLimited.code:
            return PlatformLimited(self.message, seconds=_seconds(self.data.get("seconds")))
        if self.code == OutcomeUnknown.code:
            return OutcomeUnknown(self.message, operation=str(self.data.get("operation", "")))
        kind = _BY_CODE.get(self.code)
        return kind(self.message) if kind else Bug(f"an unknown error code came back: {self.code[:40]!r}")


def _seconds(value: Any) -> float:
    """A wait in seconds; what is not a sensible number is one second."""
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else 1.0
