"""The connector ops of Telegram, in the host's terms."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec
import structlog

from services.addons.telegram.api import Update, UpdateId
from services.addons.telegram.client import BASE_ADDRESS, LONGEST_POLL_SECONDS, BotClient, new_session
from services.addons.telegram.updates import Bot, inbound_of
from shared.sdk.addon import OpCall, Surroundings
from shared.sdk.errors import OutcomeUnknown, PlatformRefused
from shared.sdk.ops import (
    DeleteArgs,
    Done,
    DraftArgs,
    EditArgs,
    Inbound,
    Me,
    MeArgs,
    PollArgs,
    PollResult,
    SendArgs,
    Sent,
    TypingArgs,
)

log = structlog.get_logger(__name__)

_updates = msgspec.json.Decoder(Update)
_update_ids = msgspec.json.Decoder(UpdateId)
#: finds the ID of an update that is no proper JSON, as with bytes that are no text
_UPDATE_ID = re.compile(rb'"update_id"\s*:\s*(\d{1,18})')
#: the address of every message is text already; a card of its first link would only repeat it
_NO_PREVIEW = {"is_disabled": True}


class Telegram:
    """What lives as long as the process: a session, and the public names of the bots; no token."""

    def __init__(self, session: aiohttp.ClientSession, base: str) -> None:
        self.session = session
        self.base = base
        self.names: dict[int, str] = {}


Call = OpCall[Telegram]


@asynccontextmanager
async def open_telegram(surroundings: Surroundings) -> AsyncIterator[Telegram]:
    base = surroundings.settings.get("telegram_api")
    if base is not None:
        log.warning("development_address_in_use", platform="telegram")
    async with new_session() as session:
        yield Telegram(session, (base or BASE_ADDRESS).rstrip("/"))


async def poll(call: Call, args: PollArgs) -> PollResult:
    """One long poll. Whatever is wrong with an update, it is counted, logged and confirmed, so that none can block."""
    client = _client(call)
    bot = await _bot(call.state, client)
    updates = await client.get_updates(
        offset=int(args.offset) if args.offset else None,
        seconds=min(max(int(args.wait_seconds), 0), LONGEST_POLL_SECONDS),
        limit=min(max(args.limit, 1), 100),
    )
    result = PollResult(offset=args.offset)
    for raw in updates:
        update_id, message = _read(raw, bot)
        result.offset = _after(update_id, result.offset)
        if message is None:
            result.skipped += 1
        else:
            result.messages.append(message)
    return result


async def me(call: Call, args: MeArgs) -> Me:
    """Whose token it is. Another program's webhook is named, and removed only when that was allowed (TG-22)."""
    client = _client(call)
    user = await client.get_me()
    call.state.names[user.id] = user.username
    webhook = await client.get_webhook_info()
    if webhook.url and not args.take_over_webhook:
        # The path of a webhook's address is often its secret, so only the host is named.
        where = urlsplit(webhook.url).hostname or "an unknown host"
        raise PlatformRefused(
            f"this bot already sends its messages to {where}",
            reason="conflict",
            detail={"webhook": where, "code": "webhook_set"},
        )
    if webhook.url:
        await client.delete_webhook()
    return Me(account_id=str(user.id), name=user.first_name, handle=user.username)


async def send(call: Call, args: SendArgs) -> Sent:
    params = _place(args.chat, args.thread) | _body(args.text, args.markup)
    if args.reply_to:
        params["reply_parameters"] = {
            "message_id": _number(args.reply_to),
            "allow_sending_without_reply": True,
        }
    try:
        message = await _client(call).send_message(**params)
    except OutcomeUnknown as unknown:
        raise OutcomeUnknown(unknown.message, operation=args.operation) from None
    return Sent(str(message.message_id))


async def edit(call: Call, args: EditArgs) -> Done:
    """The thread is a property of the message already, so it is not sent."""
    params = _place(args.chat) | _body(args.text, args.markup)
    await _client(call).edit_message_text(message_id=_number(args.id), **params)
    return Done()


async def delete(call: Call, args: DeleteArgs) -> Done:
    await _client(call).delete_message(message_id=_number(args.id), **_place(args.chat))
    return Done()


async def typing(call: Call, args: TypingArgs) -> Done:
    await _client(call).send_chat_action(action="typing", **_place(args.chat, args.thread))
    return Done()


async def draft(call: Call, args: DraftArgs) -> Done:
    """Private chats only; any refusal tells the host to use a working message instead."""
    params = _place(args.chat, args.thread)
    await _client(call).send_message_draft(draft_id=args.draft, text=args.text, **params)
    return Done()


def _client(call: Call) -> BotClient:
    return BotClient(call.state.session, call.state.base, call.credential)


async def _bot(state: Telegram, client: BotClient) -> Bot:
    """The bot's public name, asked once a process and again with every `me`."""
    if client.bot_id not in state.names:
        state.names[client.bot_id] = (await client.get_me()).username
    return Bot(client.bot_id, state.names[client.bot_id])


def _read(raw: msgspec.Raw, bot: Bot) -> tuple[int | None, Inbound | None]:
    """The ID and the message of an update, None for what cannot be read."""
    try:
        update = _updates.decode(raw)
        return update.update_id, inbound_of(update, bot)
    except Exception as problem:  # noqa: BLE001 - foreign data: none of it may fail the poll again and again
        update_id = _id_of(raw)
        # Of our own errors only the kind is told: their text could hold the message's.
        said = str(problem) if isinstance(problem, msgspec.MsgspecError) else ""
        log.warning("update_skipped", update_id=update_id, problem=type(problem).__name__, said=said)
        return update_id, None


def _id_of(raw: msgspec.Raw) -> int | None:
    try:
        return _update_ids.decode(raw).update_id
    except msgspec.DecodeError:
        found = _UPDATE_ID.search(bytes(raw))
        return int(found[1]) if found else None


def _after(update_id: int | None, offset: str) -> str:
    """What confirms an update; one without a readable ID is the next in sequence, as Telegram numbers them."""
    if update_id is not None:
        return str(update_id + 1)
    return str(int(offset) + 1) if offset else ""


def _place(chat: str, thread: str = "") -> dict[str, Any]:
    place: dict[str, Any] = {"chat_id": _number(chat)}
    if thread:
        place["message_thread_id"] = _number(thread)
    return place


def _body(text: str, markup: str) -> dict[str, Any]:
    body: dict[str, Any] = {"text": text, "link_preview_options": _NO_PREVIEW}
    if markup:
        body["parse_mode"] = markup
    return body


def _number(identifier: str) -> int:
    """An ID of Telegram; the host only has what a poll or a send answered, or what a person typed."""
    try:
        return int(identifier)
    except ValueError:
        raise PlatformRefused("this is not an ID of Telegram", reason="gone") from None
