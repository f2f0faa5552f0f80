"""Writes the reference pages from the declarations in the code.

python -m docs.generate            writes them
python -m docs.generate --check    says which are out of date, and ends with status 1 if any is

A test holds the pages against this, so that they cannot fall behind.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from prometheus_client import Counter, Gauge, Histogram

import shared.observe.metrics as metric_module
from services.frontend.api.table import ROUTES
from shared.bus import subjects
from shared.carrier import Operation, operations
from shared.config.declare import Meaning, settings_of
from shared.config.load import PREFIX
from shared.config.sections import SECTIONS
from shared.domain.errors import Failure

HERE = Path(__file__).parent
NOTE = "<!-- Written by docs/generate.py from the code; change it there. -->"


def pages() -> dict[Path, str]:
    """Every generated page with its text."""
    return {HERE / "configuration.md": configuration(), HERE / "reference.md": reference()}


# -- settings -------------------------------------------------------------------------------------------

_CONFIGURATION = """# Configuration

Every setting has a default. One that you want to change is set in the environment as
`TRUNKLINE_<SECTION>_<NAME>`, or as `name` under `[section]` in a TOML file that `TRUNKLINE_CONFIG` names; the
environment wins. A process reads its settings once, at its start, and tells **all** problems at once: unknown names
(with the one you may have meant), values of the wrong type, values outside their bounds.

```toml
# trunkline.toml, used with TRUNKLINE_CONFIG=trunkline.toml
[http]
port = 9000

[model]
url = "http://localhost:11434/v1"
```

A **secret** may also be given by the name of a file that holds it: `TRUNKLINE_<SECTION>_<NAME>_FILE`. Secrets are
never printed. `TRUNKLINE_API_KEY` is not a setting: it is the key that `trunkline status` uses."""


def configuration() -> str:
    blocks = [_CONFIGURATION, NOTE]
    for name, section in SECTIONS.items():
        rows = [_setting(name, *found) for found in settings_of(type(section))]
        heading = ("setting", "default", "unit", "meaning")
        blocks += [f"## [{name}]", _summary(type(section)), _table(heading, rows)]
    return "\n\n".join(blocks) + "\n"


def _setting(section: str, name: str, default: Any, meaning: Meaning) -> tuple[str, ...]:
    shown = (
        str(default).lower()
        if isinstance(default, bool)
        else f"{default:g}"
        if isinstance(default, float)
        else str(default)
    )
    notes = [meaning.help[:1].upper() + meaning.help[1:]]
    if meaning.choices:
        notes.append("one of " + ", ".join(f"`{choice}`" for choice in meaning.choices))
    bounds = [
        f"{word} {bound:g}"
        for word, bound in (("at least", meaning.least), ("at most", meaning.most))
        if bound is not None
    ]
    if bounds:
        notes.append(", ".join(bounds))
    if meaning.secret:
        notes.append("**secret**")
    return (
        f"`{PREFIX}{section}_{name}`".upper(),
        f"`{shown}`" if shown else "",
        meaning.unit,
        "; ".join(notes),
    )


# -- operations, subjects, failures, routes, metrics ----------------------------------------------------

_REFERENCE = """# Reference

What processes say to each other, what the API answers to, and what can be measured."""

_ABOUT_OPERATIONS = """What a frontend may ask of the owner, see [the carrier](carrier.md). *Repeatable* says that a
caller may ask again after a lost reply; the carrier itself never repeats anything."""

_ABOUT_METRICS = """`GET /metrics` on every frontend and on the owner. All processes share one list; what a process does
not do stays at 0 there. [Operations](operations.md#what-to-watch) says which to watch."""

#: for operations whose request says nothing of itself
_MEANINGS = {
    "connector.typing": "Show that the agent is typing, if the budget of the binding has a call to spare.",
    "addons.running": "The add-ons that run now, with their kinds and tools.",
    "addons.gallery": "What can be installed, and what is.",
    "addons.enable": "Switch an installed add-on on, and start it.",
    "addons.disable": "Switch an add-on off, and end its process.",
    "addons.remove": "Stop and forget an add-on; its data folder and the bindings stay.",
    "tool.read": "Run a tool that changes nothing.",
    "tool.write": "Run a tool that changes something, once for its operation ID; a repetition attaches to the first.",
    "owner.status": "How the owner is: its state, its term, its add-ons.",
}


def reference() -> str:
    blocks = [
        _REFERENCE,
        NOTE,
        "## Carrier operations",
        _ABOUT_OPERATIONS,
        _table(
            ("operation", "meaning", "deadline", "writes", "repeatable", "authority"),
            map(_operation, _operations()),
        ),
        "## Failures",
        "The closed set that travels from an add-on through the owner and the carrier to the API.",
        _table(("code", "what the caller may do", "carries"), _failures()),
        "## Bus subjects",
        "Signals make something happen sooner; each may be lost without harm.",
        _table(("subject", "one for each", "meaning", "fields"), map(_subject, _subjects())),
        "## HTTP API",
        "`GET /openapi.json` on any frontend describes bodies and answers. *Needs* is the role or the feature of the account.",
        _table(("method", "address", "meaning", "needs"), map(_route, ROUTES)),
        "## Metrics",
        _ABOUT_METRICS,
        _table(("metric", "type", "labels", "meaning"), _metrics()),
    ]
    return "\n\n".join(blocks) + "\n"


def _operations() -> list[Operation[Any, Any]]:
    return [value for value in vars(operations).values() if isinstance(value, Operation)]


def _operation(op: Operation[Any, Any]) -> tuple[str, ...]:
    name = f"`{op.name}`" + (f" v{op.version}" if op.version > 1 else "")
    meaning = _MEANINGS.get(op.name) or _summary(op.request)
    return name, meaning, f"{op.deadline:g} s", _yes(op.write), _yes(op.idempotent), op.authority


def _failures() -> list[tuple[str, ...]]:
    document = sys.modules[Failure.__module__].__doc__ or ""
    said = dict(re.findall(r"[├└]── \w+ +(\w+) +(.+)", document))
    carried = {
        "platform_refused": "`reason`, `detail`",
        "platform_limited": "`seconds`",
        "outcome_unknown": "`operation`",
    }
    return [(f"`{code}`", meaning, carried.get(code, "")) for code, meaning in said.items()]


def _subjects() -> list[subjects.Subject[Any]]:
    return [value for value in vars(subjects).values() if isinstance(value, subjects.Subject)]


def _subject(subject: subjects.Subject[Any]) -> tuple[str, ...]:
    what = {"tl.chat": "chat", "tl.notify": "user", "tl.leader": "shard", "tl.mcp.changed": "MCP connector"}
    key = what.get(subject.name, "binding") if subject.keyed else ""
    fields = ", ".join(f"`{name}`" for name in subject.payload.__struct_fields__)
    return f"`{subject.name}{'.<id>' if subject.keyed else ''}`", key, _summary(subject.payload), fields


def _route(route: Any) -> tuple[str, ...]:
    needs = route.authority + (", signed in with a password" if route.browser else "")
    return route.method, f"`{route.path}`", route.summary, needs


def _metrics() -> list[tuple[str, ...]]:
    found = {
        name: value
        for name, value in vars(metric_module).items()
        if isinstance(value, Counter | Gauge | Histogram)
    }
    written = _written()
    return [_metric(metric, counted=name in written) for name, metric in found.items()]


def _metric(metric: Counter | Gauge | Histogram, *, counted: bool) -> tuple[str, ...]:
    kind = type(metric).__name__.lower()
    name = next(iter(metric.describe())).name + ("_total" if kind == "counter" else "")
    labels = ", ".join(f"`{label}`" for label in metric._labelnames)
    return (
        f"`{name}`",
        kind,
        labels,
        metric._documentation + ("" if counted else " *Declared; nothing counts it yet.*"),
    )


def _written() -> set[str]:
    """The names of the metrics that something writes."""
    files = (path for folder in ("services", "shared") for path in (HERE.parent / folder).rglob("*.py"))
    sources = (path.read_text("utf-8") for path in files)
    return {name for source in sources for name in re.findall(r"metrics\.([A-Z_]+)", source)}


# -- markdown -------------------------------------------------------------------------------------------


def _summary(kind: type) -> str:
    """The docstring on one line; empty where there is none of its own."""
    text = kind.__doc__ or ""
    return "" if text.startswith(f"{kind.__name__}(") else " ".join(text.split())


def _yes(value: bool) -> str:
    return "yes" if value else ""


def _table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def main() -> int:
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text("utf-8") != text]
    if "--check" not in sys.argv:
        for path in stale:
            path.write_text(pages()[path], "utf-8")
    for path in stale:
        print(f"{path.name}: {'out of date' if '--check' in sys.argv else 'written'}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
