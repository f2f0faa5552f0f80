"""Secrets at rest.

- `secret.py`: a string that never prints itself.
- `keyring.py`: sealing and opening with a ring of keys, AES-256-GCM.
- `keyfile.py`: the ring as the file `connectors.key`.
"""

from shared.sealing.keyfile import KeyFile, KeyFileRefused
from shared.sealing.keyring import KeyRing, SealBroken
from shared.sealing.secret import Secret

__all__ = ["KeyFile", "KeyFileRefused", "KeyRing", "SealBroken", "Secret"]
