"""The HTTP side of the model server, under `/v1`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import orjson
from aiohttp import web

from services.simulators.calls import UNANSWERED
from services.simulators.faults import Fault, cut, inflict
from services.simulators.model import media
from services.simulators.model.checks import Checks
from services.simulators.model.errors import ModelError, error_body, unknown_model
from services.simulators.model.replies import Envelope, chunks, completion, prompt_tokens
from services.simulators.model.script import Reply, Scripts
from services.simulators.state import Platform, Shared

Body = dict[str, Any]
Answer = Callable[[web.Request, Body], Awaitable[web.StreamResponse]]


class ModelApi:
    """Answers model requests; `models` are the known IDs, `checks` is None when nothing is to be validated."""

    def __init__(
        self,
        platform: Platform,
        shared: Shared,
        scripts: Scripts,
        *,
        models: Sequence[str],
        checks: Checks | None,
    ) -> None:
        self._platform = platform
        self._shared = shared
        self._scripts = scripts
        self._checks = checks
        self.models = list(models)

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/v1/models", partial(self._handle, "models", self._list_models))
        router.add_get("/v1/models/{model:.+}", partial(self._handle, "models", self._show_model))
        for name, run in (
            ("chat/completions", self._chat),
            ("audio/transcriptions", self._transcribe),
            ("audio/speech", self._speak),
            ("images/generations", self._draw),
        ):
            router.add_post(f"/v1/{name}", partial(self._handle, name, run))

    async def _handle(self, name: str, run: Answer, request: web.Request) -> web.StreamResponse:
        body, problem = await _body(request)
        logged = orjson.dumps(body, default=_logged, option=orjson.OPT_PASSTHROUGH_DATACLASS)
        call = self._platform.calls.received(name, logged)
        status = UNANSWERED
        try:
            effect = partial(self._respond, run, request, body, problem)
            response = await self._suffer(name, request, body, effect)
            status = response.status if response is not None else UNANSWERED
            return response or web.Response(status=502)
        finally:
            self._platform.calls.answered(call, status)

    async def _suffer(
        self,
        name: str,
        request: web.Request,
        body: Body,
        effect: Callable[[], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse | None:
        """The answer, as a waiting fault wants it; a stream that is dropped ends after its last text."""
        fault = self._platform.faults.take(name)
        if fault is None:
            return await effect()
        if fault.drop == "after" and body.get("stream") is True and name == "chat/completions":
            await self._stream(request, *self._reply(body), broken=True)
            cut(request)
            return None
        return await inflict(
            fault,
            request,
            effect,
            tasks=self._shared.tasks,
            outlives_client=False,
            default_body=_standard_body,
        )

    async def _respond(
        self, run: Answer, request: web.Request, body: Body, problem: ModelError | None
    ) -> web.StreamResponse:
        try:
            if problem is not None:
                raise problem
            return await run(request, body)
        except ModelError as refused:
            return refused.response()

    async def _list_models(self, _request: web.Request, _body: Body) -> web.StreamResponse:
        return self._answer(
            "ListModelsResponse", {"object": "list", "data": [_model(m) for m in self.models]}
        )

    async def _show_model(self, request: web.Request, _body: Body) -> web.StreamResponse:
        self._require_model(request.match_info["model"])
        return self._answer("Model", _model(request.match_info["model"]))

    async def _chat(self, request: web.Request, body: Body) -> web.StreamResponse:
        self._require_model(body.get("model"))
        self._check("CreateChatCompletionRequest", body)
        if not isinstance(body.get("messages"), list) or not body["messages"]:
            raise ModelError(400, "messages must hold at least one message", param="messages")
        reply, envelope = self._reply(body)
        if body.get("stream") is True:
            return await self._stream(request, reply, envelope)
        if reply.delay:
            await asyncio.sleep(reply.delay * len(reply.steps))
        return self._answer("CreateChatCompletionResponse", completion(reply, envelope))

    def _reply(self, body: Body) -> tuple[Reply, Envelope]:
        messages = [message for message in body.get("messages") or () if isinstance(message, dict)]
        options = body.get("stream_options") or {}
        envelope = Envelope(
            model=str(body.get("model")),
            created=int(self._shared.clock()),
            prompt_tokens=prompt_tokens(messages),
            with_usage=options.get("include_usage") is True,
        )
        return self._scripts.reply(messages), envelope

    async def _stream(
        self, request: web.Request, reply: Reply, envelope: Envelope, *, broken: bool = False
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        await response.prepare(request)
        for delay, chunk in chunks(reply, envelope):
            if delay:
                await asyncio.sleep(delay)
            if broken and (not chunk["choices"] or chunk["choices"][0]["finish_reason"]):
                return response
            await response.write(b"data: " + self._checked_chunk(chunk) + b"\n\n")
        await response.write(b"data: [DONE]\n\n")
        return response

    def _checked_chunk(self, chunk: Body) -> bytes:
        """A wrong chunk becomes an error in the stream, as the status was sent long ago."""
        try:
            if self._checks is not None:
                self._checks.answer("CreateChatCompletionStreamResponse", chunk)
        except ModelError as problem:
            return orjson.dumps(error_body(problem.status, problem.message))
        return orjson.dumps(chunk)

    async def _transcribe(self, _request: web.Request, body: Body) -> web.StreamResponse:
        sound = body.get("file")
        if not isinstance(sound, web.FileField):
            raise ModelError(400, "file must be a sound file", param="file")
        self._require_model(body.get("model"))
        content = sound.file.read()
        text = media.heard(sound.filename, len(content))
        form = body.get("response_format", "json")
        if form == "text":
            return web.Response(text=text)
        if form == "verbose_json":
            whole: Body = {"text": text, "language": body.get("language", "english"), "duration": 0.0}
            return self._answer("CreateTranscriptionResponseVerboseJson", whole)
        if form != "json":
            raise ModelError(400, f"the simulator has no response_format {form}", param="response_format")
        return self._answer("CreateTranscriptionResponseJson", {"text": text})

    async def _speak(self, _request: web.Request, body: Body) -> web.StreamResponse:
        self._require_model(body.get("model"))
        self._check("CreateSpeechRequest", body)
        if not isinstance(body.get("input"), str):
            raise ModelError(400, "input must be a text", param="input")
        return web.Response(body=media.tone(body["input"]), content_type="audio/wav")

    async def _draw(self, _request: web.Request, body: Body) -> web.StreamResponse:
        self._require_model(body.get("model"))
        self._check("CreateImageRequest", body)
        if not isinstance(body.get("prompt"), str):
            raise ModelError(400, "prompt must be a text", param="prompt")
        image = {"b64_json": media.picture_text(body["prompt"])}
        images = {"created": int(self._shared.clock()), "data": [image] * int(body.get("n") or 1)}
        return self._answer("ImagesResponse", images)

    def _require_model(self, name: Any) -> None:
        if name not in self.models:
            raise unknown_model(name)

    def _check(self, schema: str, body: Body) -> None:
        if self._checks is not None:
            self._checks.request(schema, body)

    def _answer(self, schema: str, body: Body) -> web.Response:
        if self._checks is not None:
            self._checks.answer(schema, body)
        return web.Response(body=orjson.dumps(body), content_type="application/json")


async def _body(request: web.Request) -> tuple[Body, ModelError | None]:
    """The fields of a request, from JSON or a form."""
    if request.method == "GET":
        return {}, None
    if request.content_type == "multipart/form-data":
        return dict(await request.post()), None
    try:
        body = orjson.loads(await request.read())
    except orjson.JSONDecodeError:
        return {}, ModelError(400, "We could not parse the JSON body of your request.")
    if not isinstance(body, dict):
        return {}, ModelError(400, "The body of a request is a JSON object.")
    return body, None


def _model(name: str) -> Body:
    return {"id": name, "object": "model", "created": 0, "owned_by": "simulator"}


def _standard_body(fault: Fault) -> Body:
    status = fault.status or 500
    code = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}.get(status)
    return error_body(status, f"The simulator was told to answer {status}.", code=code)


def _logged(value: Any) -> Any:
    if isinstance(value, web.FileField):
        return {"file": value.filename, "mime": value.content_type}
    raise TypeError(type(value).__name__)
