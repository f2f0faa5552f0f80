"""What an add-on declares: its manifest, its ops and tools, and the state that lives as long as its process."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from shared.sdk.host import HostClient
from shared.sdk.ops import OPS, ToolCall, ToolResult

S = TypeVar("S")


class Secret:
    """A value that does not print; `reveal` is the only way to it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "<secret>"

    __str__ = __repr__

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a secret is not copied out of its process")


@dataclass(frozen=True, slots=True)
class OpCall(Generic[S]):
    """The circumstances of one call. `credential` belongs to this call and is not kept."""

    credential: Secret
    actor: Secret
    binding: str
    options: Mapping[str, str]
    state: S


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the process of an add-on gets: its own folder, the operator's settings, and the host if it pushes."""

    data: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    host: HostClient | None = None


OpHandler = Callable[[OpCall[S], Any], Awaitable[msgspec.Struct]]
ToolHandler = Callable[[OpCall[S], ToolCall], Awaitable[ToolResult]]
Open = Callable[[Surroundings], AbstractAsyncContextManager[S]]


@dataclass(frozen=True, kw_only=True)
class Addon(Generic[S]):
    """One add-on.

    `manifest` is the text of its manifest.json. `open` makes the long-lived state (a client session) at
    start and closes it at stop. Each op takes the argument type that `OPS` names for it; `own_ops` adds
    ops that only this add-on has, as name -> (arguments, result). An add-on that keeps links of its own says with
    `heard`, from its state, how many seconds ago anything at all was heard on each, by binding.
    """

    manifest: bytes
    open: Open[S]
    ops: Mapping[str, OpHandler[S]] = field(default_factory=dict)
    tools: Mapping[str, ToolHandler[S]] = field(default_factory=dict)
    own_ops: Mapping[str, tuple[type[msgspec.Struct], type[msgspec.Struct]]] = field(default_factory=dict)
    heard: Callable[[S], Mapping[str, float]] | None = None

    def argument_type(self, op: str) -> type[msgspec.Struct]:
        """Raises KeyError for an op that is declared nowhere."""
        return (OPS.get(op) or self.own_ops[op])[0]


@asynccontextmanager
async def no_state(_: Surroundings) -> AsyncIterator[None]:
    """`open` of an add-on that keeps nothing."""
    yield None
