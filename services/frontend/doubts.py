"""What a part in doubt means to the owner of its binding: why it is there, and whether it can be sent again.

Pure. The sentences say what happened and what to do; the codes are a closed set for programs.
"""

from typing import Any, Literal, NamedTuple, get_args

from shared.i18n import say
from shared.store.doubtful import Doubt

DoubtCode = Literal[
    "outcome_unknown",
    "bug",
    "gone",
    "scope",
    "too_long",
    "file",
    "migrated",
    "credentials",
    "conflict",
    "refused",
    "limited",
    "unavailable",
    "addon_not_running",
]

#: why a part cannot be sent again, or dismissed
ObstacleCode = Literal["not_doubtful", "step", "removal", "binding_off"]

#: characters that are quoted of what a platform said
QUOTED = 300

#: code of a failure after which the sending was given up -> code and sentence here
_GIVEN_UP: dict[str, tuple[DoubtCode, str]] = {
    "platform_limited": ("limited", "doubt_limited"),
    "platform_unavailable": ("unavailable", "doubt_unavailable"),
    "deadline": ("unavailable", "doubt_unavailable"),
    "outcome_unknown": ("unavailable", "doubt_unavailable"),
    "addon_not_running": ("addon_not_running", "doubt_addon"),
}


class Why(NamedTuple):
    code: DoubtCode
    sentence: str


class Obstacle(NamedTuple):
    code: ObstacleCode
    sentence: str


def why(state: str, error: dict[str, Any], purpose: str = "answer") -> Why:
    """What became of a part, from its state and the recorded failure, and what to do.

    A working message has the same codes, and sentences that do not ask to send it again: it cannot be.
    """
    found = _why(state, error)
    if purpose != "working":
        return found
    return Why(found.code, say("doubt_working_lost" if state == "unknown" else "doubt_working_not_sent"))


def _why(state: str, error: dict[str, Any]) -> Why:
    failure = error.get("code", "")
    if state == "unknown":
        broken = failure == "bug"
        return Why("bug" if broken else "outcome_unknown", say("doubt_broken" if broken else "doubt_lost"))
    if failure == "platform_refused":
        return _refused(str(error.get("reason", "")), str(error.get("message", "")))
    code, sentence = _GIVEN_UP.get(failure, ("bug", "doubt_not_sent"))
    return Why(code, say(sentence))


def _refused(reason: str, said: str) -> Why:
    for code in get_args(DoubtCode):
        if code == reason and code not in {"bug", "refused"}:
            return Why(code, say(f"doubt_{code}"))
    return Why("refused", say("doubt_refused", said=_quoted(said) or "it did not say why"))


def _quoted(said: str) -> str:
    """What the platform said, at a length that a page can show."""
    return said.rstrip(".") if len(said) <= QUOTED else said[: QUOTED - 1] + "…"


def obstacle(doubt: Doubt) -> Obstacle | None:
    """What stands against sending a part again; None when nothing does."""
    if settled := settled_already(doubt):
        return settled
    if doubt.purpose == "working":
        return Obstacle("step", say("doubt_step"))
    if doubt.action == "delete":
        return Obstacle("removal", say("doubt_removal"))
    if doubt.binding_off is not None:
        reason = doubt.binding_off
        return Obstacle("binding_off", say("doubt_off_because" if reason else "doubt_off", reason=reason))
    return None


def settled_already(doubt: Doubt) -> Obstacle | None:
    """That a part is in doubt no more; None while it is."""
    if doubt.state in {"failed", "unknown"}:
        return None
    known = {"resent": "doubt_resent", "dismissed": "doubt_dismissed"}
    return Obstacle("not_doubtful", say(known.get(doubt.state, "doubt_none")))
