"""A thin typed client of the Telegram Bot API.

The token is part of every address, so no address, and no exception that holds one, leaves this module.
"""

import re
from typing import Any, TypeVar

import aiohttp
import msgspec
from yarl import URL

from services.addons.telegram.api import Reply, SentMessage, User, WebhookInfo
from services.addons.telegram.refusals import failure_of, is_settled, unanswered
from shared.sdk.addon import Secret
from shared.sdk.errors import Failure, PlatformRefused, PlatformUnavailable
from shared.sdk.wire import repaired

BASE_ADDRESS = "https://api.telegram.org"
#: seconds to reach the platform; how long an answer may take is the deadline of the call
CONNECT_SECONDS = 10.0
#: how long a connection is kept for the next call, in seconds: less than a poll that does not come back lasts, so that
#: the poll after it cannot meet another connection of the same age
IDLE_SECONDS = 5.0
#: the server's own bound for a long poll, in seconds
LONGEST_POLL_SECONDS = 50

_TOKEN = re.compile(r"(?P<bot>[1-9]\d{0,19}):[A-Za-z0-9_-]{1,80}\Z")
T = TypeVar("T")

_replies = msgspec.json.Decoder(Reply)


def new_session() -> aiohttp.ClientSession:
    """The session that every bot of the process shares; it follows no redirect and keeps no cookie."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_SECONDS),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        json_serialize=lambda value: msgspec.json.encode(value).decode(),
    )


class BotClient:
    """The methods of one bot, for the length of one call.

    Raises PlatformRefused with reason `credentials` for a text that cannot be a token; nothing is sent then.
    """

    def __init__(self, session: aiohttp.ClientSession, base: str, token: Secret) -> None:
        shape = _TOKEN.match(token.reveal())
        if shape is None:
            raise PlatformRefused(
                "this is not the token of a Telegram bot: @BotFather gives one, such as 123456789:AA...",
                reason="credentials",
            )
        self._session = session
        self._base = base
        self._token = token
        #: the bot's user ID, which stays when its token is replaced
        self.bot_id = int(shape["bot"])

    async def get_me(self) -> User:
        return await self._call("getMe", User)

    async def get_updates(self, *, offset: int | None, seconds: int, limit: int) -> list[msgspec.Raw]:
        """Updates as they came, each still encoded: one that is strange must not hide the others."""
        params = {"timeout": seconds, "limit": limit, "allowed_updates": ["message"]}
        if offset is not None:
            params["offset"] = offset
        return await self._call("getUpdates", list[msgspec.Raw], **params)

    async def get_webhook_info(self) -> WebhookInfo:
        return await self._call("getWebhookInfo", WebhookInfo)

    async def delete_webhook(self) -> None:
        """Waiting updates are kept for the next poll."""
        await self._call("deleteWebhook", bool, drop_pending_updates=False)

    async def send_message(self, **params: Any) -> SentMessage:
        return await self._call("sendMessage", SentMessage, **params)

    async def edit_message_text(self, **params: Any) -> None:
        await self._call("editMessageText", msgspec.Raw, **params)

    async def delete_message(self, **params: Any) -> None:
        await self._call("deleteMessage", bool, **params)

    async def send_chat_action(self, **params: Any) -> None:
        await self._call("sendChatAction", bool, **params)

    async def send_message_draft(self, **params: Any) -> None:
        await self._call("sendMessageDraft", bool, **params)

    async def _call(self, method: str, kind: type[T], **params: Any) -> T:
        """The result of one method.

        Raises PlatformRefused, PlatformLimited, PlatformUnavailable, and for a send OutcomeUnknown.
        """
        status, body, retry_after = await self._exchange(method, params)
        try:
            reply = _decoded(body)
            if reply.ok and status == 200:
                return msgspec.json.decode(reply.result, type=kind)
        except ValueError:
            # A front server answers with HTML; then only the status says something.
            reply = Reply()
        if status == 200 and not reply.error_code:
            raise unanswered(method)
        if is_settled(method, reply):
            return msgspec.json.decode(b"true", type=kind)
        raise failure_of(status, reply, method=method, token=self._token.reveal(), retry_after=retry_after)

    async def _exchange(self, method: str, params: dict[str, Any]) -> tuple[int, bytes, str]:
        """Status, body and Retry-After of the answer.

        A failure is raised after the handlers, so that no chained exception can carry the address.
        """
        address = URL(f"{self._base}/bot{self._token.reveal()}/{method}", encoded=True)
        failure: Failure
        try:
            async with self._session.post(address, json=params, allow_redirects=False) as answer:
                return answer.status, await answer.read(), answer.headers.get("Retry-After", "")
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            failure = PlatformUnavailable("Telegram cannot be reached")
        except (aiohttp.ClientError, OSError):
            failure = unanswered(method)
        raise failure


def _decoded(body: bytes) -> Reply:
    """Raises ValueError for what is no JSON. One message that is no text must not hide the others."""
    try:
        return _replies.decode(body)
    except msgspec.DecodeError:
        return _replies.decode(repaired(body))
