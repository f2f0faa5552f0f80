"""Calls an add-on as its host does, without a limit of the caller's own: only the add-on's deadline counts."""

import io
from typing import Any

import aiohttp
import msgspec

from shared.sdk.harness import AddonHarness
from shared.sdk.ops import Envelope
from shared.sdk.wire import encode


async def error_of(
    addon: AddonHarness, path: str, args: msgspec.Struct, *, deadline: float, credential: str = ""
) -> dict[str, Any]:
    """The error that a call of `path` (`op/send`, `tool/x`) is answered with."""
    envelope = Envelope(msgspec.Raw(encode(args)), credential, binding="binding", deadline_seconds=deadline)
    session = aiohttp.ClientSession(
        connector=aiohttp.UnixConnector(str(addon.socket_path)),
        headers={"Authorization": f"Bearer {addon.credential}"},
        timeout=aiohttp.ClientTimeout(total=None),
    )
    async with (
        session,
        session.post(f"http://addon/v1/{path}", data=io.BytesIO(encode(envelope))) as reply,
    ):
        error: dict[str, Any] = (await reply.json())["error"]
        return error
