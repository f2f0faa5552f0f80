"""Making the CA and the certificates of peers, for `trunkline certs`, `trunkline up` and tests."""

import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from shared.carrier.identities import ROLES, Identity

CA_VALID = timedelta(days=3650)
PEER_VALID = timedelta(days=365)
_BACKDATED = timedelta(minutes=5)
"""Clocks of machines differ; a certificate is valid a little before it was made."""
_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def make_ca(folder: Path, *, valid: timedelta = CA_VALID) -> None:
    """Write `ca.pem` and `ca.key` into `folder`; an existing CA is a FileExistsError, for peers rely on it."""
    if (folder / "ca.key").exists():
        raise FileExistsError(f"{folder} holds a CA already")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Trunkline private CA")])
    builder = (
        _builder(name, name, key.public_key(), valid)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage("key_cert_sign", "crl_sign"), critical=True)
    )
    _write(folder / "ca.key", _private(key))
    _write(folder / "ca.pem", builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


def issue(folder: Path, role: str, name: str, *, valid: timedelta = PEER_VALID) -> Identity:
    """Write `<role>-<name>.pem` and `.key`, signed by the CA of `folder`.

    Issuing again renews: each file is replaced at once, and running peers pick the new pair up by themselves.
    """
    if role not in ROLES or not name.replace("-", "").isalnum() or not name.isascii():
        raise ValueError(f"no peer can be called {role}/{name}")
    ca = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
    ca_key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
    if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{folder / 'ca.key'} is not an elliptic curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _peer_builder(ca, key.public_key(), role, name, valid)
    identity = Identity(folder / f"{role}-{name}.pem", folder / f"{role}-{name}.key", folder / "ca.pem")
    _write(identity.key, _private(key))
    signed = builder.sign(ca_key, hashes.SHA256())
    _write(identity.certificate, signed.public_bytes(serialization.Encoding.PEM))
    return identity


def _peer_builder(
    ca: x509.Certificate, key: ec.EllipticCurvePublicKey, role: str, name: str, valid: timedelta
) -> x509.CertificateBuilder:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{role}-{name}"[:64])])
    names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(f"trunkline://{role}/{name}")]
    names.append(x509.DNSName(f"{role}-{name}"))
    if role == "owner":
        names.append(x509.DNSName(role))
    # A frontend's certificate cannot pose as the owner: it is good for the calling end only.
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if role == "owner" else ExtendedKeyUsageOID.CLIENT_AUTH
    identifier = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return (
        _builder(subject, ca.subject, key, valid)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage("digital_signature"), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + valid)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*granted: str) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in granted for usage in _USAGES})


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, data: bytes) -> None:
    """Replace a file at once; mkstemp makes it 0600 from its first byte."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    Path(temporary).replace(path)
