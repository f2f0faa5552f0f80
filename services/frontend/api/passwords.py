"""Passwords: Argon2id, off the event loop, few at a time; and how often one may be tried."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

import argon2
from aiohttp import web
from argon2.exceptions import InvalidHashError, VerificationError

SHORTEST, LONGEST = 8, 256
#: hashes that are worked out at the same time: each takes 64 MiB
AT_ONCE = 2
#: failures within the window after which a name, or an address, has to wait
TRIES, WINDOW_SECONDS = 10, 300.0
#: names and addresses that are remembered
REMEMBERED = 10_000


class Passwords:
    """Makes and checks password hashes."""

    def __init__(self) -> None:
        self._hasher = argon2.PasswordHasher()
        self._turn = asyncio.Semaphore(AT_ONCE)
        #: checked against for a name that does not exist, so that the time of an answer tells nothing
        self._nobody = ""

    async def hash(self, password: str) -> str:
        async with self._turn:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def matches(self, stored: str | None, password: str) -> bool:
        """Whether it is the password behind `stored`; None takes as long and is False."""
        if not self._nobody:
            self._nobody = await self.hash("nobody has this password")
        async with self._turn:
            right = await asyncio.to_thread(self._verify, stored or self._nobody, password)
        return right and stored is not None

    def _verify(self, stored: str, password: str) -> bool:
        try:
            return self._hasher.verify(stored, password)
        except (VerificationError, InvalidHashError):
            return False


class Throttle:
    """A sliding window of failures for each key, in memory: `tries` within `seconds`."""

    def __init__(
        self,
        *,
        tries: int = TRIES,
        seconds: float = WINDOW_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tries = tries
        self._seconds = seconds
        self._clock = clock
        self._failures: dict[str, deque[float]] = {}

    def begin(self, *keys: str) -> float:
        """Seconds to wait, or 0: then the try counts as failed until `succeeded` takes it back.

        Counting at the beginning leaves no gap for many tries at once.
        """
        now = self._clock()
        wait = max(self._wait(key, now) for key in keys)
        if wait <= 0:
            for key in keys:
                self._failures.setdefault(key, deque()).append(now)
            self._forget(now)
        return max(0.0, wait)

    def succeeded(self, *keys: str) -> None:
        """Take one try back; those that failed before it stay, or one account would open the way to others."""
        for key in keys:
            failures = self._failures.get(key)
            if failures:
                failures.pop()
            if not failures:
                self._failures.pop(key, None)

    def _wait(self, key: str, now: float) -> float:
        failures = self._failures.get(key, deque())
        while failures and failures[0] <= now - self._seconds:
            failures.popleft()
        return failures[0] + self._seconds - now if len(failures) >= self._tries else 0.0

    def _forget(self, now: float) -> None:
        """Keep memory bounded: what has run out goes first, then what is oldest."""
        if len(self._failures) <= REMEMBERED:
            return
        for key in list(self._failures):
            if self._failures[key][-1] <= now - self._seconds:
                del self._failures[key]
        while len(self._failures) > REMEMBERED:
            del self._failures[next(iter(self._failures))]


PASSWORDS = web.AppKey("PASSWORDS", Passwords)
THROTTLE = web.AppKey("THROTTLE", Throttle)
