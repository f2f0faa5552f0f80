"""Sealing with AES-256-GCM under a ring of keys.

A sealed value is `v1.<key id>.<base64url of nonce and ciphertext>`. The record that it belongs to is authenticated
with it: copied to another record, it does not open. Keys are rotated by putting a new one in front; older ones
still open what they sealed.
"""

import base64
import binascii
import re
import secrets
from typing import NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_VERSION = "v1"
_NONCE = 12
"""Bytes; random. One key seals far fewer than the 2^32 values for which a random nonce is safe."""
_KEY = 32
_ID = re.compile(r"[A-Za-z0-9_-]{1,32}")


class SealBroken(Exception):
    """A sealed value does not open: it was changed, belongs to another record, or its key is not here.

    The text says which, as far as that can be known, and never holds a part of the value.
    """


class KeyRing:
    """Keys by their IDs; `active` seals, all open. A ValueError names what is wrong with a ring."""

    def __init__(self, keys: dict[str, bytes], active: str) -> None:
        for key_id, key in keys.items():
            if not _ID.fullmatch(key_id):
                raise ValueError("a key ID has 1 to 32 letters, digits, - and _")
            if len(key) != _KEY:
                raise ValueError(f"the key {key_id} has {len(key)} bytes instead of {_KEY}")
        if active not in keys:
            raise ValueError("the active key is not in the ring")
        self.active = active
        self._keys = dict(keys)
        self._ciphers = {key_id: AESGCM(key) for key_id, key in keys.items()}

    @classmethod
    def generate(cls) -> "KeyRing":
        """A ring with one new key."""
        key_id = secrets.token_hex(4)
        return cls({key_id: secrets.token_bytes(_KEY)}, key_id)

    @property
    def ids(self) -> tuple[str, ...]:
        """The IDs of all keys, the active one first."""
        return (self.active, *(key_id for key_id in self._keys if key_id != self.active))

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(self.ids)})"

    def rotated(self) -> "KeyRing":
        """A ring with a new active key that still opens everything."""
        new = KeyRing.generate()
        return KeyRing({**new._keys, **self._keys}, new.active)

    def seal(self, plaintext: str, *, record: str) -> str:
        """Seal for one record, such as `binding:<id>:token`; equal texts give different values."""
        nonce = secrets.token_bytes(_NONCE)
        sealed = self._ciphers[self.active].encrypt(nonce, plaintext.encode(), _bound(self.active, record))
        return f"{_VERSION}.{self.active}.{base64.urlsafe_b64encode(nonce + sealed).decode()}"

    def open(self, sealed: str, *, record: str) -> str:
        """The text that was sealed for this very record; raises SealBroken."""
        version, key_id, body = _parts(sealed)
        if version != _VERSION:
            raise SealBroken("the value is not sealed in a way that is known here")
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            # The ID is quoted only when it looks like one: a changed value shows nothing of itself.
            shown = f"the key {key_id}" if _ID.fullmatch(key_id) else "a key"
            raise SealBroken(f"the value was sealed with {shown}, which is not in the key ring")
        try:
            blob = base64.b64decode(body, altchars=b"-_", validate=True)
            if base64.urlsafe_b64encode(blob).decode() != body:
                _broken()
            opened = cipher.decrypt(blob[:_NONCE], blob[_NONCE:], _bound(key_id, record))
        except (InvalidTag, binascii.Error, ValueError):
            _broken()
        return opened.decode()

    def is_current(self, sealed: str) -> bool:
        """Whether a value was sealed with the active key; what was not is sealed again after a rotation."""
        return sealed.startswith(f"{_VERSION}.{self.active}.")

    def to_text(self) -> str:
        """The whole ring, keys included, one `<id>:<base64>` a line, the active one first."""
        return "".join(f"{key_id}:{base64.b64encode(self._keys[key_id]).decode()}\n" for key_id in self.ids)

    @classmethod
    def from_text(cls, text: str) -> "KeyRing":
        """The ring that `to_text` wrote; a ValueError names the line and never quotes it."""
        keys: dict[str, bytes] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            key_id, separator, encoded = line.strip().partition(":")
            try:
                key = base64.b64decode(encoded, validate=True)
            except (binascii.Error, ValueError):
                key = b""
            if not separator or len(key) != _KEY or not _ID.fullmatch(key_id):
                raise ValueError(f"line {number} is not `<id>:<base64 of {_KEY} bytes>`")
            if key_id in keys:
                raise ValueError(f"line {number} repeats the ID of an earlier key")
            keys[key_id] = key
        if not keys:
            raise ValueError("there is no key")
        return cls(keys, next(iter(keys)))


def _parts(sealed: str) -> tuple[str, str, str]:
    version, _, rest = sealed.partition(".")
    key_id, _, body = rest.partition(".")
    return version, key_id, body


def _bound(key_id: str, record: str) -> bytes:
    """What is authenticated beside the text: the format, the key's ID and the record."""
    return f"{_VERSION}.{key_id}.{record}".encode()


def _broken() -> NoReturn:
    raise SealBroken("the sealed value was changed, or belongs to another record") from None
