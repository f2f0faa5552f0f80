"""What `trunkline up` shows: a line for each part while it starts, then where to go, then only what matters."""

import sys
import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

_STYLES = {"warning": "yellow", "error": "red", "critical": "red"}
_TITLES = {"postgres": "Postgres", "nats": "NATS"}


class Screen:
    """On a terminal the lines of a start move; elsewhere each is printed once, when its part is ready.

    Writes to standard error when standard output is for a program. `ready` or `over` ends the start.
    """

    def __init__(self, *, for_program: bool) -> None:
        self._console = Console(file=sys.stderr if for_program else sys.stdout, highlight=False)
        self._began = time.monotonic()
        self._since: dict[str, float] = {}
        self._lines: dict[str, Text | Spinner] = {}
        self._live = Live(console=self._console, refresh_per_second=10, get_renderable=self._progress)
        if self._console.is_terminal:
            self._live.start()

    def part(self, name: str, state: str, sentence: str) -> None:
        """A part of the cluster changed its state: starting, ready or down."""
        title = _TITLES.get(name, name)
        if state == "starting":
            self._since[name] = time.monotonic()
            self._lines[name] = Spinner("dots", Text(title), style="cyan")
            return
        seconds = time.monotonic() - self._since.get(name, self._began)
        if state == "ready":
            line = Text.assemble(("✓ ", "green"), title, (f"  {seconds:.1f} s", "dim"))
        else:
            self._since[name] = time.monotonic()
            line = Text.assemble(("✗ ", "red"), title, f": {sentence}" if sentence else "")
        self._lines[name] = line
        if not self._live.is_started:
            self._console.print(line)

    def warn(self, name: str, level: str, text: str) -> None:
        """A warning or an error of a child, as one line."""
        line = Text.assemble((f"{name} {level}: ", _STYLES.get(level, "")), text)
        if self._console.is_terminal:
            line.truncate(self._console.width - 1, overflow="ellipsis")
        self._console.print(line, soft_wrap=True)

    def say(self, text: str) -> None:
        self._console.print(text, style="dim")

    def over(self) -> None:
        """The start is over, whether or not it came to its end."""
        self._live.stop()

    def ready(self, facts: dict[str, Any], data: str) -> None:
        """Where to go, once everything runs."""
        self._live.stop()
        title = f"Trunkline runs, after {time.monotonic() - self._began:.1f} s"
        self._console.print(Panel(_places(facts, data), title=title, title_align="left", expand=False))
        # On a line of its own and without a frame: a link that was broken by one cannot be copied.
        once = " once; later with your password:" if "token=" in facts["sign_in_url"] else ":"
        self._console.print(
            Text.assemble(("Sign in", "bold"), once, "\n", facts["sign_in_url"]), soft_wrap=True
        )

    def _progress(self) -> Table:
        table = Table.grid()
        for line in self._lines.values():
            table.add_row(line)
        return table


def _places(facts: dict[str, Any], data: str) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    if facts["simulators"]:
        chat = f"{facts['simulators']['url']}/demo"
        table.add_row("Chat", Text.assemble(chat, ("\nwith the sample agent, as a Telegram user", "dim")))
    frontends = Text("\n").join(
        Text.assemble(entry["url"], (f"  {entry['id']}", "dim")) for entry in facts["frontends"]
    )
    table.add_row("Frontends", frontends)
    table.add_row("Data", data)
    table.add_row("Stop", "Ctrl-C")
    return table
