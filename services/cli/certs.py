"""`trunkline certs`: the private CA and the certificates of the peers of the carrier."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from services.cli.problems import CONFIG, Refused


@dataclass(frozen=True, slots=True)
class Written:
    """One certificate of the folder; `written` is false for one that was there and is kept."""

    file: str
    expires: datetime
    written: bool

    @property
    def days_left(self) -> int:
        return (self.expires - datetime.now(UTC)).days


def certs(
    folder: Annotated[Path, typer.Option(help="Where the certificates are, or will be.")],
    owners: Annotated[
        str | None, typer.Option(help="Names of owners, separated by commas; without --renew, main.")
    ] = None,
    frontends: Annotated[
        str | None, typer.Option(help="Names of frontends, separated by commas; without --renew, main.")
    ] = None,
    days: Annotated[
        int, typer.Option(help="How long the peers' certificates are valid.", min=1, max=3650)
    ] = 365,
    renew: Annotated[
        bool,
        typer.Option(
            "--renew",
            help="Make the certificates of the named peers again, of all in the folder if none is named.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make the private CA and a certificate for each peer. What is there is kept; running peers see renewals."""
    if renew and owners is None and frontends is None:
        peers = present(folder)
    else:
        other = "" if renew else "main"
        peers = _peers("owner", owners, other) + _peers("frontend", frontends, other)
    rows = ensure(folder, peers, valid=timedelta(days=days), renew=renew)
    if as_json:
        facts = [{"file": r.file, "expires": r.expires.isoformat(), "written": r.written} for r in rows]
        print(json.dumps({"folder": str(folder), "certificates": facts}, indent=2))
    else:
        _show(folder, rows)


def ensure(
    folder: Path, peers: list[tuple[str, str]], *, valid: timedelta, renew: bool = False
) -> list[Written]:
    """Make what is missing: the CA once, and a certificate for each peer. Raises Refused.

    A CA whose key is elsewhere is never replaced: every peer relies on it.
    """
    from shared.carrier.certs import issue, make_ca

    rows = []
    try:
        new = not (folder / "ca.key").exists()
        if new and (renew or (folder / "ca.pem").exists()):
            raise Refused(
                f"{folder} holds no ca.key: run this where the certificates were made, and copy them"
            )
        if new:
            make_ca(folder)
        rows.append(_written(folder / "ca.pem", written=new))
        for role, name in peers:
            made = renew or not _complete(folder / f"{role}-{name}.pem")
            if made:
                issue(folder, role, name, valid=valid)
            rows.append(_written(folder / f"{role}-{name}.pem", written=made))
    except ValueError as problem:
        raise Refused(f"{problem}: use letters, digits and hyphens", code=CONFIG) from None
    except OSError as problem:
        raise Refused(f"certificates cannot be kept in {folder}: {problem.strerror}") from None
    return rows


def present(folder: Path) -> list[tuple[str, str]]:
    """The peers whose certificates are in the folder. Raises Refused where it holds none."""
    peers = [
        (role, path.stem.removeprefix(f"{role}-"))
        for role in ("owner", "frontend")
        for path in sorted(folder.glob(f"{role}-*.pem"))
    ]
    if not peers:
        raise Refused(
            f"{folder} holds no certificate of a peer: make them with `trunkline certs --folder {folder}`"
        )
    return peers


def expiry(certificate: Path) -> datetime:
    """When a certificate ends. Raises OSError, ValueError."""
    from cryptography import x509

    return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc


def _peers(role: str, names: str | None, default: str) -> list[tuple[str, str]]:
    given = default if names is None else names
    return [(role, name.strip()) for name in given.split(",") if name.strip()]


def _complete(certificate: Path) -> bool:
    return certificate.exists() and certificate.with_suffix(".key").exists()


def _written(certificate: Path, *, written: bool) -> Written:
    return Written(certificate.name, expiry(certificate), written)


def _show(folder: Path, rows: list[Written]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Certificates in {folder}", title_justify="left", box=None)
    for heading in ("file", "expires", "days left", ""):
        table.add_column(heading)
    for row in rows:
        state = "written" if row.written else "kept"
        table.add_row(row.file, f"{row.expires:%Y-%m-%d}", str(row.days_left), state)
    Console().print(table)
