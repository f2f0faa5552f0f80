"""Private calls between frontends and the owner.

- `operation.py`: the declaration of an operation, shared by both ends; `call.py`: what a handler knows of its caller.
- `client.py`, `server.py`: the two ends of the wire; `direct.py`: both ends in one process.
- `calls.py`, `desk.py`: what is the same with and without a wire: waiting for answers, executing calls.
- `frames.py`, `channel.py`: what travels, and how it is batched.
- `identities.py`, `certs.py`: who is who, and making certificates.
"""

from shared.carrier.call import Call, Peer
from shared.carrier.calls import Carrier
from shared.carrier.client import CarrierClient
from shared.carrier.desk import Authorize, Handlers
from shared.carrier.direct import DirectCarrier
from shared.carrier.identities import ClientIdentity, ServerIdentity
from shared.carrier.operation import Operation
from shared.carrier.server import CarrierServer

__all__ = [
    "Authorize",
    "Call",
    "Carrier",
    "CarrierClient",
    "CarrierServer",
    "ClientIdentity",
    "DirectCarrier",
    "Handlers",
    "Operation",
    "Peer",
    "ServerIdentity",
]
