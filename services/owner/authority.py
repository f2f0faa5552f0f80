"""What the owner checks again before it acts, whoever the calling frontend says is acting."""

from shared.carrier import Call
from shared.carrier.desk import AnyOperation
from shared.domain.errors import CallerFenced, Denied, OwnerFenced, OwnerUnready
from shared.store import Database, StoreUnavailable, people


class Authority:
    """Judges calls by the `authority` word of their operation.

    `fenced` and `ready` are the owner's own state: a fenced or starting owner executes nothing (CLU-22, CLU-23).
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._terms: dict[int, int] = {}
        self.ready = False
        self.fenced = False

    @property
    def terms(self) -> dict[int, int]:
        """The newest announced leader of each shard."""
        return dict(self._terms)

    async def __call__(self, operation: AnyOperation, call: Call) -> None:
        if self.fenced:
            raise OwnerFenced(
                "this owner of the add-ons was replaced: check that the frontends reach the one that runs now"
            )
        if not self.ready:
            raise OwnerUnready("the owner of the add-ons is still starting: try again in a moment")
        if operation.authority in {"user", "admin"}:
            await self._check_user(operation.authority, call.actor)

    def announce(self, shard: int, term: int) -> bool:
        """Note a leader; True when it is a newer one. Raises CallerFenced for an older one."""
        newest = self._terms.get(shard, 0)
        if term < newest:
            raise CallerFenced("a newer leader polls this shard")
        self._terms[shard] = term
        return term > newest

    async def _check_user(self, authority: str, actor: str) -> None:
        try:
            user = await people.authority(self._database, actor)
        except StoreUnavailable:
            raise OwnerUnready("the owner of the add-ons cannot reach the database: try again") from None
        if user is None or (authority == "admin" and user.role != "admin"):
            raise Denied(
                "this needs an administrator" if authority == "admin" else "this account may not do that"
            )
        if authority == "user" and "connectors" not in user.features and user.role != "admin":
            raise Denied("this account may not use connections")
