"""One request as a handler sees it."""

from dataclasses import dataclass, field

from aiohttp import web

from services.frontend.api.errors import invalid, not_found
from services.frontend.api.services import SERVICES, Services
from shared.store.people import User
from shared.store.sessions import SignedIn

#: entries of one page of a list, unless the caller asks for fewer
PAGE = 100


@dataclass(frozen=True)
class Call:
    """`headers` are added to the answer."""

    request: web.Request
    signed_in: SignedIn | None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def services(self) -> Services:
        return self.request.app[SERVICES]

    @property
    def user(self) -> User:
        """Who calls; only routes that need a sign-in ask."""
        assert self.signed_in is not None, "the route admits anyone"
        return self.signed_in.user

    def path(self, name: str) -> str:
        """A part of the address. What cannot be the name of anything names nothing."""
        value = self.request.match_info[name]
        if not _storable(value):
            raise not_found("thing")
        return value

    def number(self, name: str, default: int, *, most: int = 2**62) -> int:
        """A whole number of the query, 0 or more; refused by name when it is none."""
        given = self.request.query.get(name)
        if given is None:
            return default
        if not (given.isascii() and given.isdecimal() and len(given) < 19):
            raise invalid(f"`{name}` must be a whole number", name)
        return min(int(given), most)

    def text(self, name: str) -> str:
        """A word of the query, empty when absent."""
        given = self.request.query.get(name, "")
        if not _storable(given):
            raise invalid(f"`{name}` cannot be used", name)
        return given


def _storable(text: str) -> bool:
    """Whether the database could hold this as a name: short, no null character, valid Unicode."""
    return len(text) <= 256 and "\x00" not in text and not any("\ud800" <= c <= "\udfff" for c in text)
