"""The probe's own ops: how a test steers it and reads what happened."""

from typing import Any, Literal

import msgspec

from shared.sdk.ops import Done, Inbound

Moment = Literal["before", "after"]


class InjectArgs(msgspec.Struct, omit_defaults=True):
    """A message arrives at the call's binding: for its next poll, or with `push` handed to the host at once."""

    message: Inbound
    push: bool = False


class FaultArgs(msgspec.Struct, omit_defaults=True):
    """The next `times` calls of the op or tool `call` fail, `moment` their effect.

    `action` is a failure of the closed set (`code` with its `data`), a call that never ends, an unexpected
    exception, or the sudden end of the process.
    """

    call: str
    action: Literal["fail", "hang", "raise", "kill"] = "fail"
    moment: Moment = "before"
    times: int = 1
    code: str = "platform_unavailable"
    data: dict[str, Any] = {}


class NoArgs(msgspec.Struct):
    """An op without arguments."""


class Message(msgspec.Struct, omit_defaults=True):
    """A message that the binding's bot sent, as people see it now."""

    id: str
    chat: str
    text: str
    thread: str = ""
    reply_to: str = ""
    markup: str = ""
    operation: str = ""
    edits: int = 0
    deleted: bool = False


class SentResult(msgspec.Struct, omit_defaults=True):
    """All messages of the call's binding in the order of their sending, and how often typing was shown."""

    messages: list[Message] = []
    typing: int = 0


class EffectsResult(msgspec.Struct):
    """How often each operation of `probe_write` had its effect, over all starts of the add-on."""

    effects: dict[str, int]


OWN_OPS: dict[str, tuple[type[msgspec.Struct], type[msgspec.Struct]]] = {
    "probe.inject": (InjectArgs, Done),
    "probe.fault": (FaultArgs, Done),
    "probe.sent": (NoArgs, SentResult),
    "probe.effects": (NoArgs, EffectsResult),
}
