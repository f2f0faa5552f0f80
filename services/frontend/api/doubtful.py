"""Parts of answers that were refused, or that may or may not have been seen, for the owner of their bot."""

import msgspec

from services.frontend.api.call import PAGE, Call
from services.frontend.api.errors import ApiError, conflict, not_found
from services.frontend.api.routes import Route
from services.frontend.api.views import Ok
from services.frontend.doubts import DoubtCode, Obstacle, obstacle, settled_already, why
from shared.bus import subjects
from shared.domain.records import Purpose
from shared.store import Connection, audit, bindings, deliveries, doubtful
from shared.store.doubtful import Doubt

#: characters of a part that a list shows
SHOWN = 200


class DoubtView(msgspec.Struct, omit_defaults=True):
    """A part in doubt: what (`purpose`, `text`), where, why, and since when.

    `unknown` may be visible and is never sent again by itself; `failed` is not visible. `why` says what happened and
    what to do. `chat` and `thread` are the platform's, `chat_id` is the conversation here. `cannot_send` says why a
    part cannot be sent again, where it cannot.
    """

    id: int
    purpose: Purpose
    text: str
    chat: str
    state: str
    code: DoubtCode
    why: str
    since: str
    can_send: bool
    cannot_send: str = ""
    thread: str = ""
    chat_id: str = ""

    @classmethod
    def of(cls, doubt: Doubt) -> "DoubtView":
        reason, against = why(doubt.state, doubt.error, doubt.purpose), obstacle(doubt)
        return cls(
            id=doubt.id,
            purpose=doubt.purpose,
            text=_short(str(doubt.body.get("plain", ""))),
            chat=doubt.platform_chat,
            state=doubt.state,
            code=reason.code,
            why=reason.sentence,
            since=doubt.since.isoformat(),
            can_send=against is None,
            cannot_send=against.sentence if against else "",
            thread=doubt.thread,
            chat_id=doubt.chat_id or "",
        )


class Doubtful(msgspec.Struct):
    """The next page is asked for with `before` = the last ID of this one."""

    parts: list[DoubtView]


class SentAgain(msgspec.Struct):
    """`id` is the new part, which goes out after what is planned in its chat already."""

    id: int


async def listed(call: Call) -> Doubtful:
    database = call.services.database
    binding_id = await _own(call, database)
    rows = await doubtful.listed(
        database, binding_id, before=call.number("before", 0), limit=call.number("limit", PAGE, most=PAGE)
    )
    return Doubtful([DoubtView.of(row) for row in rows])


async def send(call: Call) -> SentAgain:
    """One transaction; the state of the part, not the look at it, decides which of two clicks sends."""
    async with call.services.database.transaction() as connection:
        doubt = await _part(connection, call)
        if against := obstacle(doubt):
            raise _refusal(against)
        await deliveries.lock_lanes(connection, [doubt.lane])
        planned = await doubtful.send_again(connection, doubt)
        if planned is None:
            raise await _too_late(connection, call)
        facts = {"binding": doubt.binding_id, "resent_as": planned}
        await audit.write(connection, call.user.id, "delivery.send_again", str(doubt.id), **facts)
    signal = subjects.Send(chats=[doubt.platform_chat])
    call.services.bus.publish(subjects.SEND, signal, key=doubt.binding_id)
    return SentAgain(planned)


async def dismiss(call: Call) -> Ok:
    async with call.services.database.transaction() as connection:
        doubt = await _part(connection, call)
        if not await doubtful.dismiss(connection, doubt):
            raise await _too_late(connection, call)
        facts = {"binding": doubt.binding_id, "state": doubt.state}
        await audit.write(connection, call.user.id, "delivery.dismiss", str(doubt.id), **facts)
    return Ok()


async def _own(call: Call, connection: Connection) -> str:
    binding_id = call.path("id")
    if await bindings.one(connection, call.user.id, binding_id) is None:
        raise not_found("connection")
    return binding_id


async def _part(connection: Connection, call: Call) -> Doubt:
    binding_id, given = await _own(call, connection), call.path("delivery")
    number = int(given) if given.isascii() and given.isdecimal() and len(given) < 19 else 0
    doubt = await doubtful.one(connection, binding_id, number)
    if doubt is None:
        raise not_found("part")
    return doubt


async def _too_late(connection: Connection, call: Call) -> ApiError:
    """Somebody else decided on the part; what they decided is committed by now."""
    settled = settled_already(await _part(connection, call))
    assert settled is not None, "a part that does not leave doubt has left it"
    return _refusal(settled)


def _refusal(against: Obstacle) -> ApiError:
    return conflict(against.sentence, "delivery", against.code)


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


_LIST = "/api/chats/connectors/{id}/doubtful"
ROUTES = [
    Route(
        "GET",
        _LIST,
        listed,
        "Parts of answers that were refused or whose outcome is unknown, the newest first",
        "connectors",
        query=("before", "limit"),
    ),
    Route(
        "POST",
        _LIST + "/{delivery}/send",
        send,
        "Send a part in doubt again, as a new message",
        "connectors",
        status=202,
    ),
    Route("POST", _LIST + "/{delivery}/dismiss", dismiss, "Take a part in doubt from the list", "connectors"),
]
