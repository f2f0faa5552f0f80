import json
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli import certs
from services.cli.carrier import client_identity, server_identity
from services.cli.main import app
from services.cli.problems import Refused
from shared.config.sections import Carrier

DAY = timedelta(days=1)


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["certs", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


def test_the_first_run_makes_the_ca_and_a_pair_for_each_peer(tmp_path: Path) -> None:
    told = json.loads(run("--folder", str(tmp_path / "pki"), "--frontends", "a, b", "--days", "30", "--json"))
    assert [entry["file"] for entry in told["certificates"]] == [
        "ca.pem", "owner-main.pem", "frontend-a.pem", "frontend-b.pem",
    ]  # fmt: skip
    assert all(entry["written"] for entry in told["certificates"])
    assert all((tmp_path / "pki" / entry["file"]).exists() for entry in told["certificates"])


def test_what_is_there_is_kept_and_what_is_missing_is_made(tmp_path: Path) -> None:
    certs.ensure(tmp_path, [("owner", "main")], valid=DAY)
    before = (tmp_path / "owner-main.pem").read_bytes()
    rows = certs.ensure(tmp_path, [("owner", "main"), ("frontend", "new")], valid=DAY)
    assert [row.written for row in rows] == [False, False, True]
    assert (tmp_path / "owner-main.pem").read_bytes() == before


def test_renewal_replaces_the_peers_and_keeps_the_ca(tmp_path: Path) -> None:
    peers = [("owner", "main")]
    certs.ensure(tmp_path, peers, valid=DAY)
    ca, owner = (tmp_path / "ca.pem").read_bytes(), (tmp_path / "owner-main.pem").read_bytes()
    rows = certs.ensure(tmp_path, peers, valid=30 * DAY, renew=True)
    assert [row.written for row in rows] == [False, True]
    assert rows[1].days_left == 29
    assert (tmp_path / "ca.pem").read_bytes() == ca
    assert (tmp_path / "owner-main.pem").read_bytes() != owner


def test_renewal_without_names_renews_every_peer_of_the_folder_and_makes_none(tmp_path: Path) -> None:
    run("--folder", str(tmp_path), "--owners", "prime", "--frontends", "a,b")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    run("--folder", str(tmp_path), "--renew")
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] == before[name]} == {"ca.pem", "ca.key"}


def test_renewal_with_a_name_renews_that_peer_alone(tmp_path: Path) -> None:
    run("--folder", str(tmp_path), "--frontends", "a,b")
    told = json.loads(run("--folder", str(tmp_path), "--renew", "--frontends", "b", "--json"))
    assert [entry["file"] for entry in told["certificates"]] == ["ca.pem", "frontend-b.pem"]


def test_renewal_of_an_empty_folder_is_refused_and_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="holds no certificate of a peer"):
        certs.present(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("renew", [True, False])
def test_a_ca_whose_key_is_elsewhere_is_not_replaced(tmp_path: Path, renew: bool) -> None:
    certs.ensure(tmp_path, [("owner", "main")], valid=DAY)
    (tmp_path / "ca.key").unlink()
    before = (tmp_path / "ca.pem").read_bytes()
    with pytest.raises(Refused, match=r"holds no ca\.key"):
        certs.ensure(tmp_path, certs.present(tmp_path), valid=DAY, renew=renew)
    assert (tmp_path / "ca.pem").read_bytes() == before


def test_people_see_a_table_with_the_days_that_are_left(tmp_path: Path) -> None:
    shown = run("--folder", str(tmp_path), "--days", "90")
    assert "frontend-main.pem" in shown
    assert "89" in shown


def test_a_name_that_no_peer_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no peer can be called"):
        certs.ensure(tmp_path, [("owner", "../x")], valid=DAY)


def test_a_peer_takes_the_only_certificate_of_its_role_or_the_one_that_is_named(tmp_path: Path) -> None:
    certs.ensure(tmp_path, [("owner", "main"), ("frontend", "a"), ("frontend", "b")], valid=DAY)
    settings = Carrier(folder=str(tmp_path))
    assert server_identity(settings).certificate.name == "owner-main.pem"
    with pytest.raises(Refused, match=r"several frontends \(a, b\).*TRUNKLINE_CARRIER_NAME"):
        client_identity(settings)
    named = client_identity(Carrier(folder=str(tmp_path), name="b"))
    assert (named.certificate.name, named.key.name, named.ca.name) == (
        "frontend-b.pem",
        "frontend-b.key",
        "ca.pem",
    )


@pytest.mark.parametrize("damage", ["missing", "garbled"])
def test_certificates_that_cannot_be_used_are_told_with_the_remedy(tmp_path: Path, damage: str) -> None:
    certs.ensure(tmp_path, [("owner", "main")], valid=DAY)
    if damage == "missing":
        (tmp_path / "owner-main.key").unlink()
    else:
        (tmp_path / "owner-main.pem").write_text("no certificate")
    with pytest.raises(Refused, match=r"trunkline certs .* --renew"):
        server_identity(Carrier(folder=str(tmp_path)))


def test_a_named_certificate_that_is_not_there_is_made_and_not_renewed(tmp_path: Path) -> None:
    certs.ensure(tmp_path, [("frontend", "a")], valid=DAY)
    with pytest.raises(Refused, match=r"make it with .* --frontends b`"):
        client_identity(Carrier(folder=str(tmp_path), name="b"))
