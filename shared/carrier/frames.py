"""What travels on a carrier connection.

One WebSocket message is a MessagePack array of frames; a frame is an array that starts with its tag. Frames that
are sent in one turn of the event loop share a message, which is what makes small calls cheap.
"""

from typing import Annotated, Any

import msgspec

from shared.carrier.operation import LONGEST_DEADLINE
from shared.domain.errors import Bug, Failure, WireFailure

FRAME_LIMIT = 8 * 1024 * 1024
"""Bytes of one payload; what is larger travels as a stream."""
BATCH_SIZE = 256 * 1024
"""Bytes after which a message is closed and the next frame opens another one."""
MESSAGE_OVERHEAD = 64 * 1024
"""Bytes that the heads of the frames of one message may take beside their payloads."""

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=LONGEST_DEADLINE)]


class Request(msgspec.Struct, array_like=True, tag=1, gc=False):
    """Caller to owner: do this. `seconds` is what is left until the caller's deadline."""

    id: int
    name: str
    version: int
    seconds: _Seconds
    actor: str
    operation: str
    term: int
    turn: int
    epoch: int
    payload: msgspec.Raw


class Cancel(msgspec.Struct, array_like=True, tag=2, gc=False):
    """Caller to owner: nobody waits for this any more."""

    id: int


class Reply(msgspec.Struct, array_like=True, tag=3, gc=False):
    id: int
    payload: msgspec.Raw


class Failed(msgspec.Struct, array_like=True, tag=4, gc=False):
    id: int
    code: str
    message: str
    data: msgspec.Raw


class Progress(msgspec.Struct, array_like=True, tag=5, gc=False):
    id: int
    payload: msgspec.Raw


Asking = Request | Cancel
Answer = Reply | Failed | Progress
Frame = Asking | Answer

_encoder = msgspec.msgpack.Encoder()
_data = msgspec.msgpack.Decoder(dict[str, Any])
encode = _encoder.encode
asking_decoder = msgspec.msgpack.Decoder(list[Asking])
answer_decoder = msgspec.msgpack.Decoder(list[Answer])

UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
"""What decoding bytes of a stranger may raise."""


def failed(number: int, failure: Failure) -> Failed:
    """A failure as a frame; details that cannot travel are a bug of whoever raised it."""
    wire = WireFailure.of(failure)
    try:
        data = encode(wire.data)
    except (TypeError, ValueError, RecursionError):
        return failed(number, Bug(f"the details of a {wire.code} cannot travel"))
    if len(data) > BATCH_SIZE:
        return failed(number, Bug(f"the details of a {wire.code} are too large"))
    return Failed(number, wire.code, wire.message[:4000], msgspec.Raw(data))


def raised(frame: Failed) -> Failure:
    """The failure that a frame tells of."""
    try:
        data = _data.decode(frame.data)
    except UNREADABLE:
        return Bug("an error came back that cannot be read")
    return WireFailure(frame.code, frame.message, data).raised()
