"""What a leader knows of the link of each binding, and how every frontend comes to know it.

A reader notes here what it hears; once a second what changed is written in one statement. An idle binding changes with
each completed poll, so a thousand of them cost about forty rows a second.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from shared.store import Database, liveness
from shared.store.liveness import Seen


@dataclass(slots=True)
class Link:
    """The link of one binding; times are monotonic seconds, None for never.

    `polled_at`: the last completed poll. `heard_at`: the last time anything at all was heard from the platform.
    `failing_since` is the first of the failures in a row, `failure` the code of the last one. `held_until`: when the
    platform, which asked to wait, is asked again.
    """

    polled_at: float | None = None
    heard_at: float | None = None
    failure: str = ""
    failing_since: float | None = None
    failures: int = 0
    held_until: float | None = None
    conflict_since: float | None = None
    duplicates: int = 0

    def completed(self, now: float, *, heard: bool) -> None:
        """A poll came back; `heard` when its answer was the platform's."""
        self.polled_at = now
        if heard:
            self.heard_at = now

    def failed(self, code: str, now: float, *, heard: bool = False) -> None:
        self.failure, self.held_until = code, None
        self.failing_since = now if self.failing_since is None else self.failing_since
        if heard:
            self.heard_at = now

    def held(self, code: str, now: float, seconds: float) -> None:
        """The platform asked to wait."""
        self.failed(code, now, heard=True)
        self.held_until = now + seconds

    def well(self) -> None:
        """What a poll brought is stored."""
        self.failure, self.failing_since, self.conflict_since, self.failures = "", None, None, 0
        self.held_until = None


class Bookkeeper:
    """Stores the links of a term as they change."""

    def __init__(self, database: Database, term: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._term = term
        self._clock = clock
        self._written: dict[str, tuple[object, ...]] = {}

    async def write(self, links: Mapping[str, Link]) -> None:
        """Store what changed since the last call; what somebody else is writing just now waits for the next one."""
        self._written = {binding: was for binding, was in self._written.items() if binding in links}
        changed = {binding: link for binding, link in links.items() if self._changed(binding, link)}
        if not changed:
            return
        told = {binding: (_facts(link), link.duplicates) for binding, link in changed.items()}
        for binding in await liveness.note(self._database, self._term, list(self._seen(changed))):
            facts, duplicates = told[binding]
            self._written[binding] = facts
            changed[binding].duplicates -= duplicates

    def _changed(self, binding: str, link: Link) -> bool:
        return bool(link.duplicates) or _facts(link) != self._written.get(binding, _NOTHING)

    def _seen(self, links: Mapping[str, Link]) -> Iterable[Seen]:
        now = self._clock()

        def ago(at: float | None) -> float | None:
            return None if at is None else max(0.0, now - at)

        for binding, link in links.items():
            polled, heard, failing = ago(link.polled_at), ago(link.heard_at), ago(link.failing_since)
            held = None if link.held_until is None else max(0.0, link.held_until - now)
            yield Seen(binding, polled, heard, link.failure, failing, held, link.duplicates)


def _facts(link: Link) -> tuple[object, ...]:
    return link.polled_at, link.heard_at, link.failure, link.failing_since, link.held_until


#: a link that nothing is known of says nothing, so that what the leader before wrote stays until it is known better
_NOTHING = _facts(Link())
