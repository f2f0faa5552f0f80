"""The host's side of the protocol: calls one running add-on over its Unix socket."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec
import structlog

from shared.sdk.errors import AddonNotRunning, Bug, Deadline, Failure, OutcomeUnknown, PlatformUnavailable
from shared.sdk.ops import (
    OPS,
    UNREPEATABLE_OPS,
    Envelope,
    HealthAnswer,
    Inbound,
    PollResult,
    Position,
    ToolCall,
    ToolResult,
)
from shared.sdk.unixhttp import NotConnected, ReplyLost, UnixHttp
from shared.sdk.wire import encode, read_reply

log = structlog.get_logger(__name__)

#: the add-on enforces the deadline; the host waits this much longer, in seconds, for it to say so
DEADLINE_MARGIN_SECONDS = 1.0


class _PollAnswer(msgspec.Struct):
    """A PollResult whose messages are read one by one."""

    offset: Position
    messages: list[msgspec.Raw] = []
    skipped: int = 0
    heard: bool = True


class _Decoder(Protocol):
    def decode(self, buf: msgspec.Raw, /) -> Any: ...


class _PollDecoder:
    """Reads the answer of a poll. A message that cannot be read is left out and counted: the next poll passes it.

    Otherwise one message that is no text, has IDs of kilobytes or lacks a field would fail the poll for ever.
    """

    def __init__(self) -> None:
        self._answers = msgspec.json.Decoder(_PollAnswer)
        self._messages = msgspec.json.Decoder(Inbound)

    def decode(self, buf: msgspec.Raw, /) -> PollResult:
        answer = self._answers.decode(buf)
        result = PollResult(answer.offset, skipped=answer.skipped, heard=answer.heard)
        for raw in answer.messages:
            try:
                result.messages.append(self._messages.decode(raw))
            except msgspec.DecodeError as problem:
                # It names the field and what is wrong with it, never the value.
                log.warning("inbound_skipped", problem=str(problem))
                result.skipped += 1
        return result


_decoders: dict[str, _Decoder] = {
    name: _PollDecoder() if name == "poll" else msgspec.json.Decoder(result)
    for name, (_, result) in OPS.items()
}
_tool_decoder = msgspec.json.Decoder(ToolResult)
_health_decoder = msgspec.json.Decoder(HealthAnswer)


class AddonClient:
    """A Service; between `start` and `stop` any number of calls may be in flight.

    Every call raises the add-on's own Failure, or
    AddonNotRunning      nobody listens, or another start of the add-on does; nothing was executed
    OutcomeUnknown       the reply of a write (`send`, a tool's `apply`) was lost or is late
    PlatformUnavailable  the reply of another call was lost, because the add-on ended
    Deadline             another call was not answered in time
    """

    def __init__(self, socket_path: Path, credential: str) -> None:
        self._http = UnixHttp(socket_path)
        self._credential = credential

    async def start(self) -> None:
        await self._http.start()

    async def stop(self) -> None:
        await self._http.stop()

    async def op(
        self,
        name: str,
        args: msgspec.Struct,
        *,
        credential: str = "",
        actor: str = "",
        binding: str = "",
        options: Mapping[str, str] | None = None,
        deadline: float = 30.0,
        result: type[msgspec.Struct] | None = None,
    ) -> Any:
        """The result that `OPS` names for `name`; an add-on's own op needs its `result` type."""
        decoder: _Decoder = msgspec.json.Decoder(result) if result is not None else _decoders[name]
        envelope = Envelope(
            msgspec.Raw(encode(args)), credential, actor, binding, dict(options or {}), deadline
        )
        lost = _lost(name in UNREPEATABLE_OPS, getattr(args, "operation", ""))
        return _decoded(decoder, await self._post(f"/v1/op/{name}", envelope, lost))

    async def tool(
        self,
        name: str,
        call: ToolCall,
        *,
        credential: str = "",
        actor: str = "",
        binding: str = "",
        options: Mapping[str, str] | None = None,
        deadline: float = 60.0,
    ) -> ToolResult:
        envelope = Envelope(
            msgspec.Raw(encode(call)), credential, actor, binding, dict(options or {}), deadline
        )
        lost = _lost(call.phase == "apply", call.operation)
        answer: ToolResult = _decoded(_tool_decoder, await self._post(f"/v1/tool/{name}", envelope, lost))
        return answer

    async def manifest(self, *, deadline: float = 5.0) -> bytes:
        """The text of the manifest, to be checked with `parse_manifest`."""
        return await self._exchange("GET", "/manifest", b"", deadline, _lost(False, ""))

    async def health(self, *, deadline: float = 2.0) -> HealthAnswer:
        """What the add-on says of its links; each call also tells it that its host is alive."""
        reply = read_reply(await self._exchange("GET", "/health", b"", deadline, _lost(False, "")))
        answer: HealthAnswer = _decoded(_health_decoder, reply)
        return answer

    async def _post(self, path: str, envelope: Envelope, lost: Failure | None) -> msgspec.Raw:
        seconds = envelope.deadline_seconds + DEADLINE_MARGIN_SECONDS
        return read_reply(await self._exchange("POST", path, encode(envelope), seconds, lost))

    async def _exchange(
        self, method: str, path: str, body: bytes, seconds: float, lost: Failure | None
    ) -> bytes:
        """The body of the reply; `lost` is raised when the request may have been executed."""
        try:
            async with asyncio.timeout(seconds):
                status, reply = await self._http.call(method, path, bearer=self._credential, body=body)
        except NotConnected:
            raise AddonNotRunning("the add-on is not running") from None
        except ReplyLost:
            raise (lost or PlatformUnavailable("the add-on ended before it answered")) from None
        except TimeoutError:
            raise (lost or Deadline("the add-on did not answer in time")) from None
        if status == 401:
            raise AddonNotRunning("another start of the add-on listens")
        return reply


def _lost(write: bool, operation: str) -> Failure | None:
    """What a lost reply means for a write; for everything else the way of the loss decides."""
    return OutcomeUnknown("the add-on's answer was lost", operation=operation) if write else None


def _decoded(decoder: _Decoder, raw: msgspec.Raw) -> Any:
    try:
        return decoder.decode(raw)
    except msgspec.DecodeError as problem:
        raise Bug(f"the add-on's answer does not fit: {problem}") from None
