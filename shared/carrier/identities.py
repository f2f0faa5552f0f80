"""Certificates of the peers: a private CA, one certificate a peer, and what each end expects of the other.

A peer is named by its certificate: the URI `trunkline://<role>/<name>`, or, for certificates from elsewhere
(cert-manager), a DNS name that is a role, or a role and a name joined by `-`: `owner`, `frontend-a`.
"""

import hashlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shared.carrier.call import Peer

ROLES = ("owner", "frontend")
_SCHEME = "trunkline://"


@dataclass(frozen=True, slots=True)
class Identity:
    """Files of one peer: its certificate, its private key and the CA that all peers trust (PEM)."""

    certificate: Path
    key: Path
    ca: Path


@dataclass(frozen=True, slots=True)
class ServerIdentity(Identity):
    """The owner. `roles` may connect; with `pins` (SHA-256 of the certificate, hex) only those certificates."""

    roles: frozenset[str] = frozenset({"frontend"})
    pins: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ClientIdentity(Identity):
    """A frontend. It expects the owner to prove `server_name`, whatever address it is reached at."""

    server_name: str = "owner"
    pins: frozenset[str] = frozenset()


class NotEnrolled(Exception):
    """The certificate of the other end is not one of a peer that may connect."""


def context(identity: Identity) -> ssl.SSLContext:
    """TLS 1.3 with both ends proven. Raises OSError or ssl.SSLError when a file is missing or broken."""
    server = isinstance(identity, ServerIdentity)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.verify_mode = ssl.CERT_REQUIRED
    made.check_hostname = not server
    if server:
        made.num_tickets = 0  # A resumed session would skip the check of the peer's certificate.
    made.load_verify_locations(identity.ca)
    made.load_cert_chain(identity.certificate, identity.key)
    return made


class Credentials:
    """The TLS context of an identity, made again when one of its files has changed."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity
        self._stamp = _stamp(identity)
        self._context = context(identity)

    @property
    def current(self) -> ssl.SSLContext:
        return self._context

    def refresh(self) -> bool:
        """Whether there is a new context.

        Files in the middle of a renewal do not fit together: that raises OSError or ssl.SSLError, the old context
        stays, and the next refresh tries again.
        """
        stamp = _stamp(self.identity)
        if stamp == self._stamp:
            return False
        self._context = context(self.identity)
        self._stamp = stamp
        return True


def renewable(credentials: Credentials) -> ssl.SSLContext:
    """A context for a listener that serves each new connection with what `credentials` hold then.

    The callback for the server's name runs before the certificates are exchanged, also for a client that names
    no server; the context that it sets brings the certificate to show and the CA to check against.
    """

    def renew(tls: ssl.SSLObject, _name: str, _context: ssl.SSLContext) -> None:
        tls.context = credentials.current

    made = context(credentials.identity)
    made.sni_callback = renew
    return made


def _stamp(identity: Identity) -> tuple[tuple[int, int, int], ...]:
    paths = (identity.certificate, identity.key, identity.ca)
    return tuple(
        (found.st_ino, found.st_mtime_ns, found.st_size) for found in (path.stat() for path in paths)
    )


def peer_of(certificate: Mapping[str, Any]) -> Peer:
    """The peer that a verified certificate (as `getpeercert` tells it) names; raises NotEnrolled."""
    names = certificate.get("subjectAltName", ())
    for kind, value in names:
        role, _, name = value.removeprefix(_SCHEME).partition("/")
        if kind == "URI" and value.startswith(_SCHEME) and role in ROLES and name:
            return Peer(role, name)
    for kind, value in names:
        role, _, name = value.partition("-")
        if kind == "DNS" and role in ROLES:
            return Peer(role, name or role)
    raise NotEnrolled("the certificate names no peer of this cluster")


def check_pin(tls: ssl.SSLObject, pins: frozenset[str]) -> None:
    """Raises NotEnrolled when certificates are pinned and the other end shows another one."""
    if pins and fingerprint(tls.getpeercert(binary_form=True) or b"") not in pins:
        raise NotEnrolled("the certificate is not one of those that are pinned")


def fingerprint(der: bytes) -> str:
    """SHA-256 of a certificate in DER form, as 64 hex digits."""
    return hashlib.sha256(der).hexdigest()
