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
    owners: Annotated[str, typer.Option(help="Names of owners, separated by commas.")] = "main",
    frontends: Annotated[str, typer.Option(help="Names of frontends, separated by commas.")] = "main",
    days: Annotated[
        int, typer.Option(help="How long the peers' certificates are valid.", min=1, max=3650)
    ] = 365,
    renew: Annotated[bool, typer.Option("--renew", help="Make the peers' certificates again.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make the private CA and a certificate for each peer. What is there is kept; running peers see renewals."""
    peers = [("owner", name) for name in _names(owners)] + [("frontend", name) for name in _names(frontends)]
    rows = ensure(folder, peers, valid=timedelta(days=days), renew=renew)
    if as_json:
        facts = [{"file": r.file, "expires": r.expires.isoformat(), "written": r.written} for r in rows]
        print(json.dumps({"folder": str(folder), "certificates": facts}, indent=2))
    else:
        _show(folder, rows)


def ensure(
    folder: Path, peers: list[tuple[str, str]], *, valid: timedelta, renew: bool = False
) -> list[Written]:
    """Make what is missing: the CA once, and a certificate for each peer. Raises Refused."""
    from shared.carrier.certs import issue, make_ca

    rows = []
    try:
        new = not (folder / "ca.key").exists()
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


def expiry(certificate: Path) -> datetime:
    """When a certificate ends. Raises OSError, ValueError."""
    from cryptography import x509

    return x509.load_pem_x509_certificate(certificate.read_bytes()).not_valid_after_utc


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


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
