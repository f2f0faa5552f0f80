"""Whether a binding hears its platform, with a sentence on what is wrong and what to do."""

from datetime import datetime

import msgspec

from shared.domain.errors import PlatformLimited
from shared.i18n import say
from shared.store.liveness import Liveness, State

#: failure of a poll -> the sentence; the others are of the server itself
_SENTENCES = {
    "owner_unreachable": "live_owner_away",
    "owner_unready": "live_owner_away",
    "owner_fenced": "live_owner_away",
    "addon_not_running": "live_addon",
    "platform_unavailable": "live_unavailable",
    "deadline": "live_unavailable",
    "conflict": "live_conflict",
    "credentials": "live_credentials",
    "gone": "live_refused",
    "scope": "live_refused",
    "other": "live_refused",
}


class LivenessView(msgspec.Struct):
    """`state`: listening, waiting (as the platform asked), deaf, off or starting.

    `failure` is the code of what fails now, and `since` when it began.
    `last_frame_at` is the last time anything at all was heard from the platform, an empty answer too.
    """

    state: State
    last_poll_at: str | None
    last_frame_at: str | None
    oldest_waiting_seconds: float | None
    duplicates: int
    failure: str
    since: str | None
    sentence: str


def liveness_view(link: Liveness, platform: str, off_reason: str) -> LivenessView:
    """`platform` is its name for people, `off_reason` why it was switched off, if it was not its owner."""
    on = link.state != "off"
    failing = link.failing_since if on else None
    return LivenessView(
        state=link.state,
        last_poll_at=_iso(link.polled_at),
        last_frame_at=_iso(link.heard_at),
        oldest_waiting_seconds=None if link.oldest_waiting is None else round(link.oldest_waiting, 3),
        duplicates=link.duplicates,
        failure=link.failure if on else "",
        since=_iso(failing or (link.deaf_since if link.state == "deaf" else None)),
        sentence=_sentence(link, platform, off_reason),
    )


def _sentence(link: Liveness, platform: str, off_reason: str) -> str:
    if link.state == "off":
        return off_reason or say("live_off" if link.has_token else "live_no_token")
    # A wait that the platform asked for is a state of its own; once it is over, it explains nothing any more.
    if link.failure not in {"", PlatformLimited.code}:
        return say(_SENTENCES.get(link.failure, "live_broken"), platform=platform)
    return say(f"live_{link.state}", platform=platform)


def _iso(at: datetime | None) -> str | None:
    return at.isoformat() if at else None
