"""The closed set of failures, for add-on authors: an add-on imports from `shared.sdk` and `shared.text` only."""

from shared.domain.errors import (
    AddonNotRunning,
    Bug,
    Deadline,
    Denied,
    Failure,
    OutcomeUnknown,
    OwnerUnreachable,
    PlatformLimited,
    PlatformRefused,
    PlatformUnavailable,
    RefusalReason,
    TooLarge,
    WireFailure,
)

__all__ = [
    "AddonNotRunning",
    "Bug",
    "Deadline",
    "Denied",
    "Failure",
    "OutcomeUnknown",
    "OwnerUnreachable",
    "PlatformLimited",
    "PlatformRefused",
    "PlatformUnavailable",
    "RefusalReason",
    "TooLarge",
    "WireFailure",
]
