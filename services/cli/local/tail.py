"""Warnings and errors of the children, read from their log files."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

_LOOK = 0.25
_LEVELS = {"warning", "error", "critical"}
#: fields of a line that are not its data
_FRAME = {"event", "level", "timestamp", "service", "exception", "logger"}


class Tail:
    """Follows log files and passes each warning or error on as name, level and one line, save the `known` events."""

    def __init__(self, say: Callable[[str, str, str], None], *, known: frozenset[str]) -> None:
        self._known = known
        self._logs: dict[str, Path] = {}
        self._say = say
        self._read: dict[str, int] = {}

    def add(self, name: str, log: Path) -> None:
        self._logs[name] = log

    async def follow(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            self.catch_up()

    def catch_up(self) -> None:
        """Pass on what is new."""
        for name, path in self._logs.items():
            self._read_on(name, path)

    def _read_on(self, name: str, path: Path) -> None:
        try:
            with path.open("rb") as file:
                file.seek(self._read.get(name, 0))
                new = file.read()
        except FileNotFoundError:
            return
        whole = new[: new.rfind(b"\n") + 1]
        self._read[name] = self._read.get(name, 0) + len(whole)
        for line in whole.splitlines():
            found = _notable(line, self._known)
            if found is not None:
                self._say(name, *found)


def _notable(line: bytes, known: frozenset[str]) -> tuple[str, str] | None:
    """Level and text of a warning or an error."""
    if not line.startswith(b"{"):
        return None
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if fields.get("level") not in _LEVELS or fields.get("event") in known:
        return None
    data = " ".join(f"{key}={value}" for key, value in fields.items() if key not in _FRAME)
    # Third parties write several lines into one event.
    return fields["level"], " ".join(f"{fields.get('event', '')} {data}".split())
