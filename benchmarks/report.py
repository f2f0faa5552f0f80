"""What benchmarks print: the machine, then rows of figures with their bars."""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from shared.version import VERSION


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure. `bar` is what it must hold, as words; `met` is None where there is no bar."""

    name: str
    value: str
    bar: str = ""
    met: bool | None = None


def at_most(name: str, value: float, limit: float, unit: str, *, digits: int = 1) -> Figure:
    return Figure(name, f"{value:.{digits}f} {unit}", f"at most {limit:g} {unit}", value <= limit)


def at_least(name: str, value: float, limit: float, unit: str = "", *, digits: int = 2) -> Figure:
    return Figure(
        name, f"{value:.{digits}f} {unit}".strip(), f"at least {limit:g} {unit}".strip(), value >= limit
    )


def show(title: str, figures: Sequence[Figure]) -> None:
    """Print a table of figures, with the machine that they were measured on."""
    console = Console(width=100)
    table = Table(title=title, title_justify="left")
    for column in ("", "measured", "bar", ""):
        table.add_column(column)
    for figure in figures:
        mark = "" if figure.met is None else "met" if figure.met else "NOT MET"
        table.add_row(figure.name, figure.value, figure.bar, mark)
    console.print(table)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    console.print(
        f"Trunkline {VERSION}, Python {platform.python_version()}, {os.cpu_count()} cores, load {load} at the end"
    )
