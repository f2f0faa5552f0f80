"""Control routes of the Telegram stand-in: people write, worlds are arranged, visible messages are read."""

from typing import Annotated, Any, Literal

import msgspec
from aiohttp import web

from services.simulators.control import BadControl, answer, body_of, number, seconds, wait_for
from services.simulators.state import Shared
from services.simulators.telegram.bots import Bot
from services.simulators.telegram.chats import Chat, Message
from services.simulators.telegram.checks import Checks
from services.simulators.telegram.errors import REFUSALS
from services.simulators.telegram.inbound import MESSAGE_KINDS, Event, UnknownMessage, received
from services.simulators.telegram.limits import Limits
from services.simulators.telegram.media import Upload
from services.simulators.telegram.world import World

ROOT = "/_sim/telegram"


class BotSetup(msgspec.Struct, forbid_unknown_fields=True):
    """`refuse` concerns exactly this token; the other fields the bot, whatever its token."""

    token: Annotated[str, msgspec.Meta(min_length=1)]
    username: str | None = None
    first_name: str | None = None
    refuse: bool | None = None
    webhook: str | None = None


class ChatSetup(msgspec.Struct, forbid_unknown_fields=True):
    """Makes a chat known to a bot, or changes it. `refusal` is a name of `errors.REFUSALS`, or null for none."""

    bot: str
    chat: int
    title: str | None = None
    topics: list[int] = []
    closed_topics: list[int] = []
    refusal: str | msgspec.UnsetType | None = msgspec.UNSET
    migrate_to: int | None = None


class TelegramControl:
    def __init__(self, world: World, shared: Shared, checks: Checks | None) -> None:
        self._world = world
        self._feed = shared.feed
        self._checks = checks

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_post(f"{ROOT}/events", self.event)
        router.add_get(f"{ROOT}/messages", self.messages)
        router.add_post(f"{ROOT}/limits", self.limits)
        router.add_post(f"{ROOT}/bots", self.bot)
        router.add_post(f"{ROOT}/chats", self.chat)
        router.add_post(f"{ROOT}/files", self.file)

    async def event(self, request: web.Request) -> web.Response:
        event = await body_of(request, Event)
        bot = self._bot(event.bot)
        if event.update is not None:
            self._check_update(event.update)
        try:
            return answer({"event": received(self._world, bot, event)})
        except UnknownMessage as problem:
            raise BadControl(str(problem), "reply_to") from problem

    async def messages(self, request: web.Request) -> web.Response:
        """Visible messages of a chat; with `wait_text` after one of the bot's messages shows that text."""
        chat_id = number(request, "chat")
        bot = self._bot(request.query["bot"]).id if "bot" in request.query else None
        wanted = request.query.get("wait_text")
        page: dict[str, Any] = {}
        if wanted is not None:
            page["found"] = await self._shown(chat_id, bot, wanted, timeout=seconds(request, "timeout", 10.0))
        chats = self._world.chats.with_id(chat_id, bot)
        shown = sorted((message for chat in chats for message in chat.messages.values()), key=_order(chats))
        page["messages"] = [message.visible() for message in shown]
        page["typing"] = [
            str(chat.typing[0]) for chat in chats if chat.typing and self._current(chat.typing[1])
        ]
        page["drafts"] = [
            {"id": chat.draft[0], "text": chat.draft[1]}
            for chat in chats
            if chat.draft and self._current(chat.draft[2])
        ]
        return answer(page)

    async def limits(self, request: web.Request) -> web.Response:
        limits = await body_of(request, Limits)
        self._world.flood.set(limits)
        return answer(msgspec.to_builtins(limits))

    async def bot(self, request: web.Request) -> web.Response:
        setup = await body_of(request, BotSetup)
        bot = self._bot(setup.token, field="token")
        bot.username = setup.username or bot.username
        bot.first_name = setup.first_name or bot.first_name
        if setup.refuse is not None:
            self._world.bots.refuse(setup.token, setup.refuse)
        if setup.webhook is not None:
            bot.updates.set_webhook(setup.webhook)
        return answer({"bot": bot.user(), "webhook": bot.updates.webhook, "pending": len(bot.updates)})

    async def chat(self, request: web.Request) -> web.Response:
        setup = await body_of(request, ChatSetup)
        if isinstance(setup.refusal, str) and setup.refusal not in REFUSALS:
            raise BadControl(f"`refusal` is one of {', '.join(sorted(REFUSALS))}", "refusal")
        bot = self._bot(setup.bot)
        chat = self._world.chats.ensure(bot, setup.chat)
        if setup.title is not None:
            chat.described["title"] = setup.title
        for topic in (*setup.topics, *setup.closed_topics):
            chat.know_topic(topic)
        chat.closed_topics = set(setup.closed_topics)
        if setup.refusal is not msgspec.UNSET:
            chat.refusal = setup.refusal
        if setup.migrate_to is not None:
            self._world.chats.ensure(bot, setup.migrate_to)
            chat.migrated_to = setup.migrate_to
        return answer({"chat": chat.as_json(), "refusal": chat.refusal, "migrated_to": chat.migrated_to})

    async def file(self, request: web.Request) -> web.Response:
        """Store the raw body as a file that a raw update can then name; answers its identifying fields."""
        name = request.query.get("name", "file.bin")
        stored = self._world.files.store(Upload(name, request.content_type, await request.read()))
        return answer({"file": stored.as_json()})

    def _bot(self, token_or_digits: str, *, field: Literal["bot", "token"] = "bot") -> Bot:
        bot = self._world.bots.named(token_or_digits)
        if bot is None:
            raise BadControl(f"`{field}` is a token, or the digits before its colon", field)
        return bot

    def _check_update(self, update: dict[str, Any]) -> None:
        violation = self._checks.update(update) if self._checks is not None else None
        if violation is not None:
            raise BadControl(f"`update` is no Update of the platform: {violation.message}", "update")
        kind, content = next(iter(update.items()))
        if kind in MESSAGE_KINDS and not _readable(content):
            raise BadControl(f"`update.{kind}` needs message_id, date and chat.id as numbers", "update")

    def _current(self, until: float) -> bool:
        return until > self._world.clock()

    async def _shown(self, chat_id: int, bot: int | None, wanted: str, *, timeout: float) -> bool:
        """Wait until a message of a bot in the chat shows the text; false after `timeout` seconds."""

        def visible() -> bool:
            return any(
                message.from_bot and not message.deleted and wanted in message.text
                for chat in self._world.chats.with_id(chat_id, bot)
                for message in chat.messages.values()
            )

        return await wait_for(self._feed, visible, chat=chat_id, timeout=timeout)


def _order(chats: list[Chat]) -> Any:
    """By ID within one chat; chats of several bots are merged by time."""

    def by_id(message: Message) -> tuple[float, int]:
        return (message.at if len(chats) > 1 else 0.0, message.id)

    return by_id


def _readable(content: Any) -> bool:
    if not isinstance(content, dict) or not isinstance(content.get("chat"), dict):
        return False
    numbers = (content.get("message_id"), content.get("date"), content["chat"].get("id"))
    return all(isinstance(value, int) for value in numbers)
