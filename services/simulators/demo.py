"""The page where a person chats with the sample bot, as a user of the simulated Telegram would."""

from pathlib import Path

from aiohttp import web

from services.simulators.control import answer
from services.simulators.telegram.bots import Bots

STATIC = Path(__file__).parent / "static"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_FILES = {
    "demo.css": "text/css",
    "demo.js": "text/javascript",
    "chat.js": "text/javascript",
    "text.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


class DemoPage:
    """`bot` is the token of the bot to chat with; the page is told its digits only."""

    def __init__(self, bots: Bots, bot: str | None) -> None:
        self._bots = bots
        self._bot = bot

    def add_routes(self, router: web.UrlDispatcher) -> None:
        for path in ("/", "/demo"):
            router.add_get(path, self.page)
        router.add_get("/demo/static/{name}", self.static)
        router.add_get("/_sim/demo", self.about)

    async def page(self, _request: web.Request) -> web.Response:
        return _file("demo.html", "text/html")

    async def static(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in _FILES:
            raise web.HTTPNotFound
        return _file(name, _FILES[name])

    async def about(self, _request: web.Request) -> web.Response:
        bot = self._bots.named(self._bot) if self._bot else None
        known = bot and {"id": str(bot.id), "name": bot.first_name, "username": bot.username}
        return answer({"bot": known})


def _file(name: str, kind: str) -> web.Response:
    return web.Response(
        body=(STATIC / name).read_bytes(), content_type=kind, charset="utf-8", headers=HEADERS
    )
