"""One streamed chat completion. A failed connection is tried again; a request that was sent never is."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import msgspec
import structlog
import tenacity

from services.frontend.model.problems import ModelProblem, problem_of
from services.frontend.model.stream import Assembler, Lines, Reply
from shared.config.sections import Model as ModelSettings
from shared.text.redaction import scrub

log = structlog.get_logger(__name__)

#: largest error body that is read, in bytes
ERROR_BYTES = 64 * 1024


class ModelClient:
    """A Service. Raises ModelProblem for everything that is not an answer."""

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        headers = {"Authorization": f"Bearer {self._settings.api_key}"} if self._settings.api_key else {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=self._settings.connect_seconds, sock_read=self._settings.idle_seconds
            ),
            headers=headers,
        )

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def complete(
        self, request: Mapping[str, Any], on_text: Callable[[str], None] | None = None
    ) -> Reply:
        """Ask for one reply. `request` holds model, messages and tools; `on_text` hears the visible text so far.

        A reply that does not come to its end in `total_seconds` is broken off, however steadily it flows.
        """
        assembler = Assembler(on_text)
        body = msgspec.json.encode({**request, "stream": True, "stream_options": {"include_usage": True}})
        limit = asyncio.timeout(self._settings.total_seconds)
        try:
            async with limit, await self._post("/chat/completions", body) as response:
                await self._read(response, assembler)
        except ModelProblem as problem:
            raise self._without_key(problem) from None
        except aiohttp.ClientConnectorError as problem:
            raise ModelProblem("model_unreachable", type(problem).__name__) from None
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as problem:
            if limit.expired():
                raise ModelProblem("model_endless", f"over {self._settings.total_seconds:g} s") from None
            raise ModelProblem("model_broken", type(problem).__name__) from None
        return assembler.reply()

    async def models(self) -> list[str]:
        """The IDs of the models that the server offers."""
        session = self._opened()
        try:
            async with session.get(self._settings.url.rstrip("/") + "/models") as response:
                await _refuse_errors(response)
                document = msgspec.json.decode(await response.read())
        except ModelProblem as problem:
            raise self._without_key(problem) from None
        except aiohttp.ClientConnectorError as problem:
            raise ModelProblem("model_unreachable", type(problem).__name__) from None
        except (aiohttp.ClientError, TimeoutError, ConnectionError, msgspec.DecodeError) as problem:
            raise ModelProblem("model_broken", type(problem).__name__) from None
        entries = document.get("data") if isinstance(document, dict) else None
        return [e["id"] for e in entries or () if isinstance(e, dict) and isinstance(e.get("id"), str)]

    async def _post(self, path: str, body: bytes) -> aiohttp.ClientResponse:
        """Open the request; only a connection that could not be made is tried again."""
        session = self._opened()
        url = self._settings.url.rstrip("/") + path
        async for attempt in tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(aiohttp.ClientConnectorError),
            stop=tenacity.stop_after_attempt(1 + self._settings.connect_retries),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=2.0),
            reraise=True,
        ):
            with attempt:
                return await session.post(url, data=body, headers={"Content-Type": "application/json"})
        raise AssertionError("retrying ends with a response or an error")

    async def _read(self, response: aiohttp.ClientResponse, assembler: Assembler) -> None:
        await _refuse_errors(response)
        if response.content_type == "application/json":
            # The server does not stream.
            assembler.chunk(_decoded(await response.read()))
            return
        lines = Lines()
        async for data in response.content.iter_any():
            for payload in lines.feed(data):
                if payload == b"[DONE]":
                    return
                assembler.chunk(_decoded(payload))
        if not assembler.finished:
            raise ModelProblem("model_broken", "the stream ended before the answer did")

    def _without_key(self, problem: ModelProblem) -> ModelProblem:
        """Some servers repeat the key that they refuse."""
        return ModelProblem(problem.code, scrub(problem.detail, (self._settings.api_key,)))

    def _opened(self) -> aiohttp.ClientSession:
        if not self._settings.url:
            raise ModelProblem("model_unreachable", "TRUNKLINE_MODEL_URL is not set")
        assert self._session is not None, "the client was not started"
        return self._session


async def _refuse_errors(response: aiohttp.ClientResponse) -> None:
    if response.status < 400:
        return
    raw = await response.content.read(ERROR_BYTES)
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        body = None
    raise problem_of(response.status, body)


def _decoded(payload: bytes) -> Any:
    try:
        return msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ModelProblem("model_broken", "a part of the answer is not JSON") from None
