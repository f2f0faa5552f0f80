"""What `trunkline up` shows: one line a part while it starts, then where to go. Plain lines without a terminal."""

import sys
import time
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

_STYLES = {"warning": "yellow", "error": "red", "critical": "red"}
_TITLES = {"postgres": "Postgres", "nats": "NATS"}


class Screen:
    """Writes to standard error with `quiet`, so that standard output is for a program."""

    def __init__(self, *, quiet: bool) -> None:
        self._console = Console(file=sys.stderr if quiet else sys.stdout, highlight=False, soft_wrap=True)
        self._since: dict[str, float] = {}
        self._started = time.monotonic()

    def part(self, name: str, state: str, sentence: str) -> None:
        """A part of the cluster changed its state: starting, ready or down."""
        if state == "starting":
            self._since[name] = time.monotonic()
            return
        title = _TITLES.get(name, name)
        if state == "ready":
            seconds = time.monotonic() - self._since.pop(name, time.monotonic())
            self._console.print(Text.assemble(("✓ ", "green"), f"{title} ", (f"{seconds:.1f} s", "dim")))
        else:
            self._since[name] = time.monotonic()
            self._console.print(Text.assemble(("✗ ", "red"), f"{title}: {sentence}"))

    def warn(self, name: str, level: str, text: str) -> None:
        """A warning or an error of a child, as one line."""
        line = Text.assemble((f"{name} {level}: ", _STYLES.get(level, "")), text)
        line.truncate(max(self._console.width, 40), overflow="ellipsis")
        self._console.print(line)

    def say(self, text: str) -> None:
        self._console.print(text, style="dim")

    def ready(self, facts: dict[str, Any], data: str) -> None:
        """Where to go, once everything runs."""
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        table.add_row("Sign in", f"{facts['sign_in_url']}\n[dim]once, within the hour[/dim]")
        if facts["simulators"]:
            table.add_row(
                "Chat",
                f"{facts['simulators']['url']}/demo\n[dim]as a Telegram user, with the sample agent[/dim]",
            )
        table.add_row(
            "Frontends",
            "\n".join(f"{entry['url']}  [dim]{entry['id']}[/dim]" for entry in facts["frontends"]),
        )
        table.add_row("Data", data)
        table.add_row("Stop", "Ctrl-C")
        seconds = time.monotonic() - self._started
        self._console.print(
            Panel(
                table, title=f"Trunkline runs [dim]({seconds:.1f} s)[/dim]", title_align="left", expand=False
            )
        )
