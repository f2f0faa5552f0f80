"""The bots that exist: every well-formed token is one, unless it was marked as refused."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from services.simulators.telegram.errors import MALFORMED, UNAUTHORIZED, ApiError
from services.simulators.telegram.updates import Updates

_TOKEN = re.compile(r"([1-9]\d*):[^/]+\Z")
LONGEST_TOKEN = 80


@dataclass(slots=True)
class Bot:
    """One bot account; a replaced token leads to the same bot, as its digits are the user ID."""

    id: int
    username: str
    first_name: str
    updates: Updates

    def user(self) -> dict[str, Any]:
        """As the sender of a message."""
        return {"id": self.id, "is_bot": True, "first_name": self.first_name, "username": self.username}

    def me(self) -> dict[str, Any]:
        """As getMe answers."""
        return {
            **self.user(),
            "can_join_groups": True,
            "can_read_all_group_messages": False,
            "supports_inline_queries": False,
            "can_connect_to_business": False,
            "has_main_web_app": False,
        }


class Bots:
    def __init__(self, *, clock: Callable[[], float], first: int = 0) -> None:
        self._clock = clock
        self._first = first
        self._bots: dict[int, Bot] = {}
        self._ids: dict[str, int] = {}
        self._refused: set[str] = set()

    def by_token(self, token: str) -> Bot:
        """The bot of a token; raises the platform's 401 for a refused or malformed one."""
        number = self._ids.get(token)
        if number is None:
            match = _TOKEN.match(token)
            if match is None or len(token) > LONGEST_TOKEN:
                raise ApiError(401, MALFORMED)
            number = self._ids[token] = int(match[1])
        if token in self._refused:
            raise ApiError(401, UNAUTHORIZED)
        return self.by_id(number)

    def by_id(self, number: int) -> Bot:
        bot = self._bots.get(number)
        if bot is None:
            bot = Bot(
                number, f"sim{number}_bot", f"Sim {number}", Updates(clock=self._clock, first=self._first)
            )
            self._bots[number] = bot
        return bot

    def named(self, token_or_digits: str) -> Bot | None:
        """The bot that the control API means; whether its token is refused does not matter here."""
        digits = token_or_digits.partition(":")[0]
        well_formed = digits.isascii() and digits.isdigit() and not digits.startswith("0")
        return self.by_id(int(digits)) if well_formed and len(digits) < LONGEST_TOKEN else None

    def refuse(self, token: str, refused: bool) -> None:
        if refused:
            self._refused.add(token)
        else:
            self._refused.discard(token)
