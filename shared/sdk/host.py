"""What an add-on may ask of the host; the host decides by its policy and by the actor token."""

from pathlib import Path

from shared.sdk.errors import OutcomeUnknown, OwnerUnreachable
from shared.sdk.ops import Inbound
from shared.sdk.unixhttp import NotConnected, ReplyLost, UnixHttp
from shared.sdk.wire import encode, read_reply


class HostClient(UnixHttp):
    """Host operations over the host's socket, with the per-start credential or the actor token of a call."""

    def __init__(self, socket_path: Path, credential: str) -> None:
        super().__init__(socket_path)
        self._credential = credential

    async def inbound(self, binding: str, message: Inbound, *, actor: str = "") -> None:
        """Hand over one pushed message; it is stored when this returns.

        Raises the Failure of the host, OwnerUnreachable when nothing was sent, and OutcomeUnknown when the
        reply was lost. Handing the same message over again is harmless: the host knows it by its ID.
        """
        body = encode({"binding": binding, "message": message})
        try:
            _, reply = await self.call(
                "POST", "/v1/host/connector.inbound", bearer=actor or self._credential, body=body
            )
        except NotConnected:
            raise OwnerUnreachable("the host does not listen") from None
        except ReplyLost:
            raise OutcomeUnknown("the host's reply was lost") from None
        read_reply(reply)
