"""What a failed call means for a planned part: pure decisions, no I/O."""

from typing import Any

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
    WireFailure,
)
from shared.domain.records import Delivery
from shared.store.deliveries import Result

#: seconds until a part whose token was refused is tried again; the binding is switched off meanwhile
REFUSED_TOKEN_SECONDS = 60.0
#: longest pause before an add-on that was not running is asked again
ADDON_SECONDS = 1.0


def outcome_of(delivery: Delivery, failure: Failure, settings: DeliverySettings) -> Result:
    """The recorded outcome of a part whose call failed.

    Nothing that may have had an effect is planned again, except edits. What certainly had none is tried again
    until it is too old. Sources: ANS-25, ANS-42, architecture step 6, cases TG-05 and TG-09.
    """
    if isinstance(failure, PlatformRefused):
        return _refused(delivery, failure, settings)
    if isinstance(failure, PlatformLimited):
        return _again(delivery, failure, failure.seconds, settings)
    if isinstance(failure, OutcomeUnknown | Deadline | Bug) and delivery.action == "send":
        return Result(delivery.id, "unknown", error=_facts(failure))
    if isinstance(failure, AddonNotRunning):
        # Asking costs nothing, and an add-on that is back has what waited for it at once.
        return _again(delivery, failure, min(ADDON_SECONDS, backoff(delivery.attempts, settings)), settings)
    if isinstance(failure, PlatformUnavailable | OutcomeUnknown | Deadline):
        return _again(delivery, failure, backoff(delivery.attempts, settings), settings)
    return Result(delivery.id, "failed", error=_facts(failure))


def without_facts(result: Result) -> Result:
    """The same outcome without what came from the platform, for one that the database does not take as it is.

    Without its facts a further try cannot be planned.
    """
    state = "failed" if result.state == "planned" else result.state
    return Result(result.delivery_id, state, error=_facts(Bug("the outcome could not be stored as it was")))


def backoff(attempts: int, settings: DeliverySettings) -> float:
    """Seconds before the next try; doubles from the first to the longest pause."""
    return float(min(settings.retry_most_seconds, settings.retry_seconds * 2 ** min(attempts - 1, 20)))


def _refused(delivery: Delivery, refused: PlatformRefused, settings: DeliverySettings) -> Result:
    if refused.reason == "markup" and delivery.body.get("markup"):
        plain = {"text": delivery.body["plain"], "markup": "", "plain": delivery.body["plain"]}
        return Result(delivery.id, "planned", body=plain, error=_facts(refused))
    if refused.reason == "credentials":
        return _again(delivery, refused, REFUSED_TOKEN_SECONDS, settings)
    if delivery.action == "edit":
        # Whatever the reason, the working message is left as it is and the answer goes as a new one (ANS-42).
        return Result(delivery.id, "planned", action="send", error=_facts(refused))
    if delivery.action == "delete" and refused.reason == "gone":
        return Result(delivery.id, "sent")
    return Result(delivery.id, "failed", error=_facts(refused))


def _again(delivery: Delivery, failure: Failure, wait: float, settings: DeliverySettings) -> Result:
    if delivery.age_seconds + wait > settings.give_up_seconds:
        return Result(delivery.id, "failed", error=_facts(failure))
    return Result(delivery.id, "planned", wait_seconds=wait, error=_facts(failure))


def _facts(failure: Failure) -> dict[str, Any]:
    wire = WireFailure.of(failure)
    return {"code": wire.code, "message": wire.message, **wire.data}
