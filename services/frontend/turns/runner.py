"""One turn, from claim to planned answer: context -> model -> tools -> answer, each step stored as it comes.

A turn that was taken over starts here as well: what its predecessor stored is in the transcript, what it had not
stored is done again, and a write that had started is found by its operation ID.
"""

import structlog

from services.frontend.catalog import Catalog
from services.frontend.model import ModelClient, ModelProblem, Reply
from services.frontend.turns.closing import Closer, Ending
from services.frontend.turns.context import request_messages, unanswered_calls
from services.frontend.turns.delivery import planned_answer
from services.frontend.turns.progress import Progress
from services.frontend.turns.tools import Toolbox, Tools
from services.frontend.turns.typing import Typing
from shared.bus import Bus, subjects
from shared.carrier import Carrier
from shared.config.sections import Turns as TurnSettings
from shared.domain.errors import CallerFenced
from shared.domain.records import Message, Turn
from shared.i18n import say
from shared.lifecycle import Tasks
from shared.lifecycle.points import Point, reached
from shared.observe import metrics
from shared.store import Database, requests, turns
from shared.store.requests import Request
from shared.store.turns import Closing, NewMessage, Usage

log = structlog.get_logger(__name__)


class TurnRunner:
    """Runs turns for one frontend, whose ID is `holder`."""

    def __init__(
        self,
        *,
        database: Database,
        bus: Bus,
        carrier: Carrier,
        model: ModelClient,
        catalog: Catalog,
        typing: Typing,
        settings: TurnSettings,
        holder: str,
        tasks: Tasks,
    ) -> None:
        self._database = database
        self._bus = bus
        self._carrier = carrier
        self._model = model
        self._catalog = catalog
        self._tools = Tools(carrier, catalog)
        self._closer = Closer(database=database, bus=bus, holder=holder, tasks=tasks)
        self._typing = typing
        self._settings = settings
        self._tasks = tasks

    async def run(self, turn: Turn, request: Request | None = None) -> Turn | None:
        """Answer. `request` is the first one, when it came with the claim. Returns the turn that was begun for messages that came too late for this one.

        Raises CallerFenced when another frontend has the turn, StoreUnavailable when the database is away.
        """
        work = _Work(turn, request)
        try:
            return await self._answer(work)
        finally:
            if work.progress is not None:
                work.progress.stop()

    async def give_up(self, turn: Turn) -> Turn | None:
        """End a turn that cannot be run with a sentence to its sender, so that it blocks nobody."""
        work = _Work(turn)
        work.request = await self._next_request(work)
        return await self._close(work, say("turn_broken"), error="turn_broken")

    async def _answer(self, work: "_Work") -> Turn | None:
        while True:
            request = work.request = work.first or await self._next_request(work)
            work.first = None
            self._show_progress(work)
            refusal = self._refusal(request)
            if refusal:
                return await self._close(work, say(refusal), error=refusal)
            assert request.agent is not None
            toolbox = await self._tools.of(request.agent)
            number, calls = unanswered_calls(request.messages)
            if calls:
                await self._run_calls(work, toolbox, number, calls)
                continue
            if request.number > self._settings.max_requests:
                limit = self._settings.max_requests
                return await self._close(work, say("too_many_steps", limit=limit), error="too_many_steps")
            await reached(Point.TURN_BEFORE)
            try:
                reply = await self._ask(work, request, toolbox)
            except ModelProblem as problem:
                log.warning("model_gave_no_answer", turn=work.turn.id, problem=str(problem))
                return await self._close(work, say(problem.code), error=problem.code)
            work.count(reply.usage)
            if not reply.tool_calls:
                return await self._close(work, reply.text or say("model_empty"))
            await self._store_calls(work, request, reply)

    async def _next_request(self, work: "_Work") -> Request:
        history = self._settings.history_messages
        request = await requests.next_request(self._database, work.turn, history=history)
        if request is None:
            raise CallerFenced("this turn has ended or was taken over")
        return request

    def _show_progress(self, work: "_Work") -> None:
        if work.progress is None:
            assert work.request is not None
            work.progress = Progress(self._tasks, self._carrier, self._typing, work.turn, work.request.place)
            work.progress.start()

    @staticmethod
    def _refusal(request: Request) -> str:
        """The code of the sentence that stands in for an answer; empty when the model may be asked."""
        if not request.user_enabled:
            return "owner_off"
        if request.agent is None:
            return "agent_missing"
        if not request.model_allowed:
            return "model_not_allowed"
        return "" if request.agent.model else "model_missing"

    async def _ask(self, work: "_Work", request: Request, toolbox: Toolbox | None) -> Reply:
        assert request.agent is not None
        assert work.progress is not None
        await work.progress.typed()
        messages = request_messages(request.agent, request.messages, most_chars=self._settings.history_chars)
        body: dict[str, object] = {"model": request.agent.model, "messages": messages}
        if toolbox is not None:
            body["tools"] = toolbox.declarations()
        listens = request.place.reply_mode == "stream" and bool(request.place.binding_id)
        try:
            reply = await self._model.complete(body, work.progress.text_grew if listens else None)
        except ModelProblem as problem:
            metrics.MODEL_REQUESTS.labels(problem.code).inc()
            raise
        metrics.MODEL_REQUESTS.labels("answered").inc()
        return reply

    async def _store_calls(self, work: "_Work", request: Request, reply: Reply) -> None:
        """Store the reply before its calls run, so that each has its operation ID whatever happens next."""
        calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in reply.tool_calls]
        data = {"tool_calls": calls, "request": request.number, "read": request.read_seq}
        await self._store(work, NewMessage("assistant", reply.text, data))

    async def _run_calls(
        self, work: "_Work", toolbox: Toolbox | None, number: int, calls: list[dict[str, object]]
    ) -> None:
        assert work.request is not None
        assert work.progress is not None
        read = max((m.data.get("read", 0) for m in work.request.messages if m.role == "assistant"), default=0)
        for call in calls:
            work.progress.tool_started(str(call["name"]))
            self._tell(work.turn, "tool_start", str(call["name"]))
            result = await self._tools.run(work.turn, toolbox, number, call)
            await reached(Point.TOOL_TOLD)
            await self._store(
                work, NewMessage("tool", result, {"call": call["id"], "name": call["name"], "read": read})
            )

    async def _store(self, work: "_Work", message: NewMessage) -> None:
        if await turns.add_reply(self._database, work.turn, message) is None:
            raise CallerFenced("this turn has ended or was taken over")
        self._tell(work.turn, "message")

    # -- the end ----------------------------------------------------------------------------------------

    async def _close(self, work: "_Work", text: str, *, error: str = "") -> Turn | None:
        """Plan the answer and end the turn, both or neither."""
        assert work.request is not None
        turn, place, request = work.turn, work.request.place, work.request
        newest = _newest_of_person(request.messages)
        parts = []
        if place.binding_id:
            dialect = await self._catalog.dialect(place.kind, place.addon)
            parts = await planned_answer(text, turn=turn, place=place, dialect=dialect, reply_to=newest)
        await reached(Point.TURN_AFTER)
        data = {"read": request.read_seq} | ({"error": error} if error else {})
        return await self._closer.close(Ending(Closing(turn, text, data, error, work.usage), place, parts))

    def _tell(self, turn: Turn, kind: str, name: str = "") -> None:
        self._bus.publish(subjects.CHAT, subjects.ChatEvent(kind=kind, name=name), key=turn.chat_id)


class _Work:
    """The state of one run of a turn."""

    def __init__(self, turn: Turn, first: Request | None = None) -> None:
        self.turn = turn
        self.first = first
        self.request: Request | None = None
        self.progress: Progress | None = None
        self.usage = Usage()

    def count(self, usage: Usage) -> None:
        self.usage = Usage(
            self.usage.prompt_tokens + usage.prompt_tokens,
            self.usage.completion_tokens + usage.completion_tokens,
        )


def _newest_of_person(messages: list[Message]) -> str:
    """The platform's ID of the newest message of a person that the turn has read."""
    return next((str(m.data.get("message", "")) for m in reversed(messages) if m.role == "user"), "")
