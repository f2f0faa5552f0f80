"""The peer of the pipeline: an aiogram bot that does the same visible work and stores nothing.

    python -m benchmarks.peers.bot ADDRESS FIRST_BOT BOTS {answer|echo}

`answer`: typing, `Working…`, a streamed model call, then an edit. `echo`: one plain answer.
"""

import asyncio
import json
import sys

import aiohttp
import uvloop
from aiogram import Bot, Dispatcher
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.types import Message

from benchmarks.load import token


async def main(address: str, first: int, bots: int, mode: str) -> None:
    session = AiohttpSession(api=TelegramAPIServer.from_base(address), limit=1000)
    dispatcher = Dispatcher()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

        async def complete(text: str) -> str:
            body = {"model": "sim-large", "stream": True, "messages": [{"role": "user", "content": text}]}
            answer = ""
            async with http.post(f"{address}/v1/chat/completions", json=body) as response:
                async for line in response.content:
                    if line.startswith(b"data: {"):
                        choices = json.loads(line[6:])["choices"]
                        answer += (choices[0]["delta"].get("content") or "") if choices else ""
            return answer

        @dispatcher.message()
        async def on_message(message: Message, bot: Bot) -> None:
            if mode == "echo":
                await message.answer(f"You said: {message.text}")
                return
            await bot.send_chat_action(message.chat.id, "typing")
            working = await message.answer("Working…")
            await working.edit_text(await complete(message.text or ""))

        made = [Bot(token(first + n), session=session) for n in range(bots)]
        await dispatcher.start_polling(*made, handle_signals=True)


if __name__ == "__main__":
    uvloop.install()
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
