"""Chats: reading all of one's own, and talking to an agent in one of the web."""

from typing import Annotated

import msgspec
import structlog
from aiohttp import web

from services.frontend.api.call import PAGE, Call
from services.frontend.api.chat_views import ChatView, MessageView
from services.frontend.api.errors import conflict, invalid, not_found
from services.frontend.api.events import follow
from services.frontend.api.routes import Route
from services.frontend.api.views import clean
from shared.bus import subjects
from shared.store import Connection, StoreUnavailable, agents, audit, chats, turns
from shared.store.chats import ChatRow
from shared.store.turns import Head, NewMessage

log = structlog.get_logger(__name__)

Title = Annotated[str, msgspec.Meta(max_length=200)]


class ChatNew(msgspec.Struct, forbid_unknown_fields=True):
    agent_id: str
    title: Title = ""


class ChatChange(msgspec.Struct, forbid_unknown_fields=True):
    title: Title


class MessageNew(msgspec.Struct, forbid_unknown_fields=True):
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=100_000, pattern=r"\S")]


class Chats(msgspec.Struct):
    """The next page is asked for with `before` = the last ID of this one."""

    chats: list[ChatView]


class ChatRead(msgspec.Struct):
    """Messages after `after`; the next page is asked for with the last `seq` of this one."""

    chat: ChatView
    messages: list[MessageView]


class Started(msgspec.Struct):
    """`seq` is the number of the new message; the answer is read from the events or the messages."""

    started: bool
    seq: int


async def listed(call: Call) -> Chats:
    rows = await chats.listed(
        call.services.database,
        call.user.id,
        before=call.text("before"),
        limit=call.number("limit", PAGE, most=PAGE),
    )
    return Chats([ChatView.of(row) for row in rows])


async def create(call: Call, body: ChatNew) -> ChatView:
    database, user_id = call.services.database, call.user.id
    if await agents.one(database, user_id, body.agent_id) is None:
        raise invalid("you have no such agent", "agent_id")
    chat_id = await chats.add(database, user_id, agent_id=body.agent_id, title=clean(body.title))
    return ChatView.of(await _own(database, call, chat_id))


async def read(call: Call) -> ChatRead:
    chat = await _own(call.services.database, call, call.path("id"))
    rows = await chats.messages(
        call.services.database,
        chat.id,
        after=call.number("after", 0),
        limit=call.number("limit", PAGE, most=PAGE),
    )
    return ChatRead(ChatView.of(chat), [MessageView.of(row) for row in rows])


async def rename(call: Call, body: ChatChange) -> ChatView:
    async with call.services.database.transaction() as connection:
        head = await _resting(connection, call)
        await chats.rename(connection, head.id, clean(body.title))
        return ChatView.of(await _own(connection, call, head.id))


async def remove(call: Call) -> None:
    async with call.services.database.transaction() as connection:
        head = await _resting(connection, call)
        await chats.remove(connection, head.id)
        await audit.write(connection, call.user.id, "chat.remove", head.id)
    _signal(call, head.id)


async def write(call: Call, body: MessageNew) -> Started:
    """Add a message of the person and start a turn; while one runs, its next model request reads the message."""
    async with call.services.database.transaction() as connection:
        head = await _locked(connection, call)
        if head.binding_id:
            raise conflict("this chat belongs to a connection: it is written to on its platform", "id")
        message = NewMessage("user", body.text, sender_name=call.user.name)
        seq = await turns.append(connection, head.id, [message], answer=True)
    _signal(call, head.id)
    try:
        await call.services.pool.claim(head.id, None)
    except StoreUnavailable as problem:
        # The message is stored: an error now would make the client send it twice. The sweep starts its turn.
        log.info("turn_starts_later", chat=head.id, problem=str(problem))
    return Started(started=True, seq=seq)


async def events(call: Call) -> web.StreamResponse:
    return await follow(call)


async def _own(connection: Connection, call: Call, chat_id: str) -> ChatRow:
    row = await chats.one(connection, call.user.id, chat_id)
    if row is None:
        raise not_found("chat")
    return row


async def _locked(connection: Connection, call: Call) -> Head:
    head = await turns.lock_chat(connection, call.path("id"))
    if head is None or head.user_id != call.user.id:
        raise not_found("chat")
    return head


async def _resting(connection: Connection, call: Call) -> Head:
    """A chat that no turn is running in."""
    head = await _locked(connection, call)
    if head.turn_id is not None:
        raise conflict("a turn is running in this chat: try again when it has ended", "id", "turn_running")
    return head


def _signal(call: Call, chat_id: str) -> None:
    call.services.bus.publish(subjects.CHAT, subjects.ChatEvent(kind="message"), key=chat_id)


ROUTES = [
    Route("GET", "/api/chats", listed, "My chats, the newest first", "chats", query=("before", "limit")),
    Route("POST", "/api/chats", create, "Begin a chat", "chats", status=201),
    Route("GET", "/api/chats/{id}", read, "A chat and its messages", "chats", query=("after", "limit")),
    Route("PATCH", "/api/chats/{id}", rename, "Rename a chat", "chats"),
    Route("DELETE", "/api/chats/{id}", remove, "Delete a chat", "chats"),
    Route("POST", "/api/chats/{id}/messages", write, "Say something to the agent", "chats", status=202),
    Route(
        "GET",
        "/api/chats/{id}/events",
        events,
        "What happens in a chat, as it happens",
        "chats",
        query=("after",),
    ),
]
