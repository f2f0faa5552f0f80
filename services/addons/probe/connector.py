"""The connector ops over the world in memory, and the probe's own ops."""

import asyncio

from services.addons.probe.control import (
    EffectsResult,
    FaultArgs,
    InjectArgs,
    Message,
    NoArgs,
    SentResult,
)
from services.addons.probe.world import Call
from shared.sdk.errors import PlatformRefused, PlatformUnavailable
from shared.sdk.ops import (
    DeleteArgs,
    Done,
    EditArgs,
    Me,
    MeArgs,
    PollArgs,
    PollResult,
    SendArgs,
    Sent,
    TypingArgs,
)


async def poll(call: Call, args: PollArgs) -> PollResult:
    """Messages are numbered; the offset is the number of the next one and confirms all below it."""
    await call.state.suffer("poll", "before")
    _account(call)
    box = call.state.box(call.binding)
    box.confirm(int(args.offset or 0))
    try:
        async with asyncio.timeout(args.wait_seconds):
            await box.arrived.wait()
    except TimeoutError:
        return PollResult(offset=args.offset)
    messages = box.waiting[: args.limit]
    await call.state.suffer("poll", "after")
    return PollResult(offset=str(box.first + len(messages)), messages=messages)


async def me(call: Call, _: MeArgs) -> Me:
    await call.state.suffer("me", "before")
    account = _account(call)
    return Me(account_id=account, name=f"Probe {account}", handle=account)


async def send(call: Call, args: SendArgs) -> Sent:
    await call.state.suffer("send", "before")
    _account(call)
    sent = call.state.box(call.binding).sent
    message = Message(
        id=str(len(sent) + 1),
        chat=args.chat,
        text=args.text,
        thread=args.thread,
        reply_to=args.reply_to,
        markup=args.markup,
        operation=args.operation,
    )
    call.state.show(call.binding, message)
    await call.state.suffer("send", "after")
    return Sent(message.id)


async def edit(call: Call, args: EditArgs) -> Done:
    await call.state.suffer("edit", "before")
    message = _own(call, args.chat, args.id)
    if message.text != args.text:
        message.text, message.edits = args.text, message.edits + 1
        call.state.show(call.binding, message)
    await call.state.suffer("edit", "after")
    return Done()


async def delete(call: Call, args: DeleteArgs) -> Done:
    await call.state.suffer("delete", "before")
    message = _own(call, args.chat, args.id)
    message.deleted = True
    call.state.show(call.binding, message)
    await call.state.suffer("delete", "after")
    return Done()


async def typing(call: Call, _: TypingArgs) -> Done:
    await call.state.suffer("typing", "before")
    _account(call)
    call.state.box(call.binding).typing += 1
    return Done()


async def inject(call: Call, args: InjectArgs) -> Done:
    if not args.push:
        call.state.box(call.binding).put(args.message)
        return Done()
    if call.state.host is None:
        raise PlatformUnavailable("the probe was started without a host")
    await call.state.host.inbound(call.binding, args.message, actor=call.actor.reveal())
    return Done()


async def fault(call: Call, args: FaultArgs) -> Done:
    call.state.add_fault(args)
    return Done()


async def sent(call: Call, _: NoArgs) -> SentResult:
    box = call.state.box(call.binding)
    return SentResult(list(box.sent.values()), box.typing)


async def effects(call: Call, _: NoArgs) -> EffectsResult:
    return EffectsResult(dict(call.state.journal.counts("effect")))


def _account(call: Call) -> str:
    """A token is `<account>:<anything>`; every other text is refused, as a platform refuses a wrong token."""
    account, colon, _ = call.credential.reveal().partition(":")
    if not colon:
        raise PlatformRefused("the probe does not accept the token", reason="credentials")
    return account


def _own(call: Call, chat: str, message_id: str) -> Message:
    _account(call)
    message = call.state.box(call.binding).sent.get(message_id)
    if message is None or message.deleted or message.chat != chat:
        raise PlatformRefused("there is no such message", reason="gone")
    return message
