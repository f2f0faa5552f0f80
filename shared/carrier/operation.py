"""The declaration of an operation: one object, shared by the caller and the owner."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import msgspec

Req = TypeVar("Req", bound=msgspec.Struct)
Rep = TypeVar("Rep", bound=msgspec.Struct)

_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*")
LONGEST_DEADLINE = 3600.0
"""Seconds; no call may wait longer, whatever its caller asks for."""


@dataclass(frozen=True, eq=False)
class Operation(Generic[Req, Rep]):
    """What can be asked of the owner, and under which rules.

    `name` and `version` name the contract: another version is refused, never guessed at.
    `deadline` is in seconds and covers the whole call; a caller may ask for another one.
    `write` says that the call changes something outside: when its reply does not come, the caller gets
    `OutcomeUnknown`. `idempotent` says that a caller may repeat it; the carrier itself never repeats anything.
    `callers` are the roles of peers that may call; `authority` is the word that the owner's `authorize` judges.
    `progress` is the type of what a running call may report before its reply.
    """

    name: str
    version: int
    request: type[Req]
    reply: type[Rep]
    deadline: float = 10.0
    idempotent: bool = False
    write: bool = False
    callers: frozenset[str] = frozenset({"frontend"})
    authority: str = "none"
    progress: type[msgspec.Struct] | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"an operation is named in lower case words with dots, not {self.name!r}")
        if not 0 < self.deadline <= LONGEST_DEADLINE:
            raise ValueError(f"the deadline of {self.name} must be over 0 and at most {LONGEST_DEADLINE:g} s")

    @property
    def may_be_lost(self) -> bool:
        """Whether a call without a reply leaves a question that repeating it must not answer."""
        return self.write and not self.idempotent

    @cached_property
    def request_decoder(self) -> msgspec.msgpack.Decoder[Req]:
        return msgspec.msgpack.Decoder(self.request)

    @cached_property
    def reply_decoder(self) -> msgspec.msgpack.Decoder[Rep]:
        return msgspec.msgpack.Decoder(self.reply)

    @cached_property
    def progress_decoder(self) -> msgspec.msgpack.Decoder[msgspec.Struct] | None:
        return None if self.progress is None else msgspec.msgpack.Decoder(self.progress)
