"""`trunkline status`: how a running cluster is doing, asked over its HTTP API."""

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from services.cli.local.folder import RUN_FILE
from services.cli.problems import CONFIG, Refused

#: seconds for one question
_PATIENCE = 5.0


def status(
    data: Annotated[Path | None, typer.Option(help="Data folder of a local cluster.")] = None,
    url: Annotated[str | None, typer.Option(help="Address of a frontend.")] = None,
    key: Annotated[
        str | None, typer.Option(help="API key of an administrator.", envvar="TRUNKLINE_API_KEY")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the frontends, who leads, the owner and its add-ons, the bus, the database and what waits."""
    if data is not None:
        run = read_run_file(data)
        url, key = url or run["frontends"][0]["url"], key or run["api_key"]
    if not url or not key:
        raise Refused("give --data of a local cluster, or --url of a frontend and --key", code=CONFIG)
    report = asyncio.run(ask(url, key))
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        show(report)


def read_run_file(data: Path) -> dict[str, Any]:
    """What `up` wrote. Raises Refused when no cluster runs there."""
    try:
        run: dict[str, Any] = json.loads((data / RUN_FILE).read_bytes())
    except FileNotFoundError:
        raise Refused(f"no cluster runs in {data}: start one with `trunkline up --data {data}`") from None
    except (OSError, ValueError) as problem:
        raise Refused(f"{data / RUN_FILE} cannot be read: {problem}") from None
    return run


async def ask(url: str, key: str) -> dict[str, Any]:
    """The answer of `/api/cluster`, and with each living frontend what its `/readyz` says. Raises Refused.

    One that is gone is not asked: another may answer at its address by now.
    """
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=_PATIENCE)
    async with aiohttp.ClientSession(timeout=timeout) as http:
        try:
            headers = {"Authorization": f"Bearer {key}"}
            async with http.get(f"{url.rstrip('/')}/api/cluster", headers=headers) as answer:
                if answer.status in {401, 403}:
                    raise Refused("the key is not one of an administrator of this cluster")
                if answer.status != 200:
                    raise Refused(f"{url} answers {answer.status}: is that a frontend of Trunkline?")
                report: dict[str, Any] = await answer.json()
        except (aiohttp.ClientError, TimeoutError, ValueError) as problem:
            raise Refused(
                f"{url} does not answer ({type(problem).__name__}): is the cluster running?"
            ) from None
        living = [entry for entry in report["frontends"] if entry["alive"]]
        answers = await asyncio.gather(*(_readyz(http, entry["url"]) for entry in living))
    for entry, ready in zip(living, answers, strict=True):
        entry["readyz"] = ready
    return report


async def _readyz(http: Any, url: str) -> dict[str, Any] | None:
    """What a frontend says of itself; None when it cannot be asked from here."""
    import aiohttp

    try:
        async with http.get(f"{url}/readyz") as answer:
            found: dict[str, Any] = await answer.json()
            return found
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return None


def show(report: dict[str, Any]) -> None:
    """Print what `ask` has found, for people."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=None)
    for heading in ("frontend", "leads shards", "ready", "oldest waiting", "version", "url"):
        table.add_column(heading, no_wrap=heading == "frontend", overflow="fold")
    living = [entry for entry in report["frontends"] if entry["alive"]]
    for entry in living:
        table.add_row(*_row(entry))
    console.print(table)
    if gone := len(report["frontends"]) - len(living):
        console.print(f"  {gone} gone in the last day")
    console.print(f"[bold]links[/bold]  {_links(living)}")
    for name in ("owner", "bus", "database"):
        console.print(f"[bold]{name}[/bold]  {_line(report.get(name))}")
    for addon in (report.get("owner") or {}).get("addons") or []:
        reason = f" — {addon['reason']}" if addon.get("reason") else ""
        console.print(f"  {addon['id']} {addon.get('version', '')} {addon.get('state', '')}{reason}")


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    ready = entry["readyz"]
    shards = entry.get("shards") or []
    waiting = _check(ready, "messages").get("oldest_waiting_seconds")
    return (
        entry["id"],
        "★ " + ", ".join(str(shard) for shard in shards) if shards else "",
        "no answer" if ready is None else "yes" if ready.get("ready") else "no",
        "" if waiting is None else f"{waiting:.1f} s",
        str(entry.get("version", "")),
        str(entry.get("url", "")),
    )


def _links(living: list[dict[str, Any]]) -> str:
    """Every frontend tells the same of the whole cluster, so the first that tells is enough."""
    for links in (_check(entry["readyz"], "links") for entry in living):
        if links.get("deaf") is not None:
            return f"deaf connections {links['deaf']}, oldest poll {links['oldest_poll_seconds']:.1f} s ago"
    return "unknown"


def _check(ready: dict[str, Any] | None, name: str) -> dict[str, Any]:
    """The facts of one check of a `/readyz`; none where nobody told any."""
    return (ready or {}).get("checks", {}).get(name) or {}


def _line(facts: dict[str, Any] | None) -> str:
    """Plain facts on one line; lists have rows of their own."""
    shown = {key: value for key, value in (facts or {}).items() if not isinstance(value, list | dict)}
    return ", ".join(f"{key} {value}" for key, value in shown.items()) or "unknown"
