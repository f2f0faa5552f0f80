import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from shared.carrier import Peer
from shared.carrier.certs import issue, make_ca
from shared.carrier.identities import NotEnrolled, ServerIdentity, context, peer_of


@pytest.fixture
def pki(tmp_path: Path) -> Path:
    make_ca(tmp_path / "pki")
    return tmp_path / "pki"


def test_keys_are_their_owners_alone(pki: Path) -> None:
    issue(pki, "owner", "main")
    for path in pki.glob("*.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(pki.stat().st_mode) == 0o700


def test_a_ca_is_not_replaced_by_accident(pki: Path) -> None:
    before = (pki / "ca.pem").read_bytes()
    with pytest.raises(FileExistsError):
        make_ca(pki)
    assert (pki / "ca.pem").read_bytes() == before


def test_issuing_again_renews(pki: Path) -> None:
    first = issue(pki, "frontend", "a").certificate.read_bytes()
    assert issue(pki, "frontend", "a").certificate.read_bytes() != first
    assert sorted(path.name for path in pki.iterdir()) == [
        "ca.key", "ca.pem", "frontend-a.key", "frontend-a.pem",
    ]  # fmt: skip


def test_a_certificate_is_valid_as_long_as_asked(pki: Path) -> None:
    identity = issue(pki, "frontend", "a", valid=timedelta(days=3))
    certificate = x509.load_pem_x509_certificate(identity.certificate.read_bytes())
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=2, hours=23) < left <= timedelta(days=3)


@pytest.mark.parametrize(
    ("role", "name"),
    [("admin", "a"), ("frontend", ""), ("frontend", "a/b"), ("owner", "../x"), ("owner", "é")],
)
def test_a_peer_that_cannot_be_named_is_refused(pki: Path, role: str, name: str) -> None:
    with pytest.raises(ValueError, match="no peer can be called"):
        issue(pki, role, name)


def test_a_key_of_another_certificate_is_no_identity(pki: Path) -> None:
    owner, frontend = issue(pki, "owner", "main"), issue(pki, "frontend", "a")
    with pytest.raises(OSError, match=r"(?i)key values mismatch"):
        context(ServerIdentity(owner.certificate, frontend.key, owner.ca))


@pytest.mark.parametrize(
    ("names", "peer"),
    [
        ([("URI", "trunkline://frontend/a")], Peer("frontend", "a")),
        ([("DNS", "owner"), ("URI", "trunkline://frontend/a")], Peer("frontend", "a")),
        ([("DNS", "trunkline-owner.ns.svc"), ("DNS", "frontend-7")], Peer("frontend", "7")),
        ([("DNS", "owner")], Peer("owner", "owner")),
    ],
)
def test_a_certificate_names_its_peer(names: list[tuple[str, str]], peer: Peer) -> None:
    assert peer_of({"subjectAltName": tuple(names)}) == peer


@pytest.mark.parametrize(
    "names",
    [
        [],
        [("URI", "trunkline://admin/a")],
        [("URI", "trunkline://frontend/")],
        [("URI", "https://frontend/a")],
        [("DNS", "example.org")],
        [("DNS", "frontender")],
        [("IP Address", "127.0.0.1")],
    ],
)
def test_other_certificates_name_nobody(names: list[tuple[str, str]]) -> None:
    with pytest.raises(NotEnrolled):
        peer_of({"subjectAltName": tuple(names)})
