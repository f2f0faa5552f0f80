"""How results and failures look as JSON between host and add-on; both ends read this one place."""

import json
from typing import Any

import msgspec

from shared.sdk.errors import Bug, Denied, Failure, PlatformLimited, PlatformRefused, TooLarge, WireFailure

#: the largest request and answer in bytes; files larger than an inline one travel through transfer handles
MAX_BODY_BYTES = 4 * 1024 * 1024

#: the status of a failure; the code in the body decides, the status is for logs and foreign clients
_STATUS = {
    Denied.code: 403,
    TooLarge.code: 413,
    PlatformRefused.code: 422,
    PlatformLimited.code: 429,
    Bug.code: 500,
}
_OTHER_STATUS = 503

_encoder = msgspec.json.Encoder()


class _Error(msgspec.Struct):
    code: str = ""
    message: str = ""
    data: dict[str, Any] = {}


class _Reply(msgspec.Struct):
    """Either `result` or `error`; foreign fields are ignored."""

    result: msgspec.Raw = msgspec.Raw(b"null")
    error: _Error | None = None


_reply_decoder = msgspec.json.Decoder(_Reply)


def repaired(body: bytes) -> bytes:
    """The same JSON with a mark for what is no text: half a surrogate pair makes all of it unreadable otherwise.

    Raises ValueError for what is no JSON at all.
    """
    try:
        value = json.loads(body.decode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def encode(value: Any) -> bytes:
    return _encoder.encode(value)


def result_body(value: Any) -> bytes:
    return b'{"result":' + _encoder.encode(value) + b"}"


def failure_body(failure: Failure) -> bytes:
    wire = WireFailure.of(failure)
    return _encoder.encode({"error": {"code": wire.code, "message": wire.message, "data": wire.data}})


def failure_status(failure: Failure) -> int:
    return _STATUS.get(failure.code, _OTHER_STATUS)


def read_reply(body: bytes) -> msgspec.Raw:
    """The result in `body`, still encoded.

    Raises the Failure that `body` carries, and Bug for anything that is no reply.
    """
    try:
        reply = _decoded(body)
    except ValueError:
        raise Bug("the other side answered with something that is no reply") from None
    if reply.error is not None:
        raise WireFailure(reply.error.code, reply.error.message, reply.error.data).raised()
    return reply.result


def _decoded(body: bytes) -> _Reply:
    try:
        return _reply_decoder.decode(body)
    except msgspec.DecodeError:
        return _reply_decoder.decode(repaired(body))
