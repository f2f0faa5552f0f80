"""Unrelated Telegram clients work against the simulator, which holds every call and answer against the contract."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiogram import Bot, Dispatcher, F
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    TelegramBadRequest,
    TelegramConflictError,
    TelegramMigrateToChat,
    TelegramRetryAfter,
    TelegramUnauthorizedError,
)
from aiogram.types import BufferedInputFile, LinkPreviewOptions, Message
from telegram import Update
from telegram.error import BadRequest, InvalidToken, RetryAfter
from telegram.ext import ApplicationBuilder, ContextTypes, MessageHandler, filters

from shared.lifecycle import Tasks
from tests.support.simulation import TOKEN, Sim, running

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452000000280000001e")


@pytest.fixture
async def sim() -> AsyncIterator[Sim]:
    async with running() as started:
        yield started


@asynccontextmanager
async def aiogram_bot(sim: Sim, token: str = TOKEN) -> AsyncIterator[Bot]:
    bot = Bot(token, session=AiohttpSession(api=TelegramAPIServer.from_base(sim.url)))
    try:
        yield bot
    finally:
        await bot.session.close()


async def test_a_polling_aiogram_bot_answers_edits_and_deletes(sim: Sim) -> None:
    dispatcher = Dispatcher()

    @dispatcher.message(F.text)
    async def answer(message: Message, bot: Bot) -> None:
        await bot.send_chat_action(message.chat.id, "typing")
        await bot.send_message_draft(message.chat.id, draft_id=7, text="Wor")
        working = await message.reply("Working…", link_preview_options=LinkPreviewOptions(is_disabled=True))
        await working.edit_text(f"*Done*: {message.text}", parse_mode="MarkdownV2")
        await message.delete()

    async with aiogram_bot(sim) as bot:
        polling = Tasks("test").run("polling", dispatcher.start_polling(bot, handle_signals=False))
        await sim.says("lights")
        page = await sim.get("telegram/messages", chat=5001, wait_text="Done: lights")
        assert page["found"] is True
        await sim.get("telegram/wait", since=0, method="deleteMessage")
        await dispatcher.stop_polling()
        await polling
    asked, answered = await sim.shown()
    assert asked["deleted"] is True
    assert (answered["text"], answered["edits"], answered["reply_to"]) == ("Done: lights", 1, 1)
    assert answered["entities"] == [{"type": "bold", "offset": 0, "length": 4}]
    statuses = {call["status"] for call in (await sim.get("telegram/calls"))["calls"] if call["status"]}
    assert statuses == {200}


async def test_aiogram_reads_updates_me_webhook_and_files(sim: Sim) -> None:
    async with aiogram_bot(sim) as bot:
        assert (await bot.get_me()).username == "sim111_bot"
        await sim.says("/start now", chat=-1001, thread=7)
        (update,) = await bot.get_updates()
        assert update.message is not None
        assert update.message.is_topic_message
        assert (update.message.entities or [])[0].type == "bot_command"
        sent = await bot.send_photo(-1001, BufferedInputFile(PNG, "a.png"), caption="c", message_thread_id=7)
        assert sent.photo is not None
        fetched = await bot.download(sent.photo[0])
        assert fetched is not None
        assert fetched.read() == PNG
        await bot.set_webhook("https://hooks.example.test/x")
        assert (await bot.get_webhook_info()).url == "https://hooks.example.test/x"
        with pytest.raises(TelegramConflictError):
            await bot.get_updates()
        assert await bot.delete_webhook() is True


async def test_aiogram_understands_the_refusals(sim: Sim) -> None:
    await sim.says("hi")
    await sim.post("telegram/chats", {"bot": TOKEN, "chat": -4001, "migrate_to": -1004001})
    await sim.post("telegram/bots", {"token": "222:revoked", "refuse": True})
    async with aiogram_bot(sim) as bot, aiogram_bot(sim, "222:revoked") as revoked:
        with pytest.raises(TelegramBadRequest, match="can't parse entities"):
            await bot.send_message(5001, "Ok.", parse_mode="MarkdownV2")
        with pytest.raises(TelegramMigrateToChat) as migrated:
            await bot.send_message(-4001, "x")
        assert migrated.value.migrate_to_chat_id == -1004001
        await sim.post("telegram/faults", {"status": 429, "headers": {"Retry-After": "30"}})
        with pytest.raises(TelegramRetryAfter) as flood:
            await bot.send_message(5001, "x")
        assert flood.value.retry_after == 30
        with pytest.raises(TelegramUnauthorizedError):
            await revoked.get_me()


async def test_a_polling_python_telegram_bot_answers(sim: Sim) -> None:
    async def answer(update: Update, context: ContextTypes.DEFAULT_TYPE) -> None:
        message = update.effective_message
        assert message is not None
        await context.bot.send_chat_action(message.chat_id, "typing")
        working = await message.reply_text("Working…")
        await working.edit_text(f"_Done_: {message.text}", parse_mode="MarkdownV2")

    builder = ApplicationBuilder().token(TOKEN)
    app = builder.base_url(f"{sim.url}/bot").base_file_url(f"{sim.url}/file/bot").build()
    app.add_handler(MessageHandler(filters.TEXT, answer))
    async with app:
        await app.start()
        assert app.updater is not None
        await app.updater.start_polling(poll_interval=0)
        await sim.says("lights")
        page = await sim.get("telegram/messages", chat=5001, wait_text="Done: lights")
        assert page["found"] is True
        await app.updater.stop()
        await app.stop()


async def test_python_telegram_bot_understands_the_refusals(
    sim: Sim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTB_TIMEDELTA", "1")  # the client's coming default, without its warning
    await sim.says("hi")
    await sim.post("telegram/bots", {"token": "222:revoked", "refuse": True})
    app = ApplicationBuilder().token(TOKEN).base_url(f"{sim.url}/bot").build()
    async with app.bot as bot:
        sent = await bot.send_message(5001, "same")
        with pytest.raises(BadRequest, match="Message is not modified"):
            await bot.edit_message_text("same", 5001, sent.message_id)
        with pytest.raises(BadRequest, match="Chat not found"):
            await bot.send_message(5999, "x")
        await sim.post("telegram/limits", {"enforce": True})
        await bot.send_message(5001, "x")
        with pytest.raises(RetryAfter):
            await bot.send_message(5001, "y")
    revoked = ApplicationBuilder().token("222:revoked").base_url(f"{sim.url}/bot").build()
    with pytest.raises(InvalidToken):
        await revoked.bot.initialize()
    await revoked.bot.shutdown()
