"""The carrier's ends as the settings ask for them: who we are, and where the other end is."""

import secrets
import ssl
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from services.cli.problems import CONFIG, Refused
from shared.carrier import CarrierClient, ClientIdentity, ServerIdentity
from shared.carrier.identities import Identity, context
from shared.config.sections import Carrier

Known = TypeVar("Known", bound=Identity)


def client(settings: Carrier) -> CarrierClient:
    """A frontend's end. Raises Refused for an address or certificates that cannot be used."""
    address = urlsplit(settings.url)
    try:
        host, port = address.hostname, address.port
    except ValueError:
        host = port = None
    if address.scheme != "https" or not host:
        raise Refused(
            "the frontend needs the owner's address in TRUNKLINE_CARRIER_URL, such as https://owner:7443 "
            "(or run both in one process: trunkline frontend --combined)",
            code=CONFIG,
        )
    identity = client_identity(settings)
    return CarrierClient(host, port or 7443, identity, instance=secrets.token_hex(4))


def client_identity(settings: Carrier) -> ClientIdentity:
    certificate = _certificate(settings, "frontend")
    return _usable(
        ClientIdentity(certificate, certificate.with_suffix(".key"), certificate.parent / "ca.pem")
    )


def server_identity(settings: Carrier) -> ServerIdentity:
    certificate = _certificate(settings, "owner")
    return _usable(
        ServerIdentity(certificate, certificate.with_suffix(".key"), certificate.parent / "ca.pem")
    )


def _certificate(settings: Carrier, role: str) -> Path:
    """The certificate of this role: the one that is named, else the only one in the folder. Raises Refused."""
    if not settings.folder:
        raise Refused(
            "no folder with certificates is set: make one with `trunkline certs --folder DIR` "
            "and give it in TRUNKLINE_CARRIER_FOLDER",
            code=CONFIG,
        )
    folder = Path(settings.folder)
    if settings.name:
        return folder / f"{role}-{settings.name}.pem"
    found = sorted(folder.glob(f"{role}-*.pem"))
    if len(found) > 1:
        names = ", ".join(path.stem.removeprefix(f"{role}-") for path in found)
        raise Refused(
            f"{folder} holds several {role}s ({names}): choose one in TRUNKLINE_CARRIER_NAME", code=CONFIG
        )
    if not found:
        raise Refused(
            f"{folder} holds no certificate of a {role}: make one with `trunkline certs --folder {folder}`"
        )
    return found[0]


def _usable(identity: Known) -> Known:
    """The identity, once its files have been read. Raises Refused."""
    try:
        context(identity)
    except (OSError, ssl.SSLError) as problem:
        why, certificate = problem.strerror or problem, identity.certificate
        role, _, name = certificate.stem.partition("-")
        again, how = ("again ", "--renew") if certificate.exists() else ("", f"--{role}s {name}")
        raise Refused(
            f"the certificate {certificate} cannot be used ({why}): "
            f"make it {again}with `trunkline certs --folder {certificate.parent} {how}`"
        ) from None
    return identity
