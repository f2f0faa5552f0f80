"""Translates what handlers may raise besides the closed set."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from shared.carrier import Call
from shared.domain.errors import OwnerUnready
from shared.store import StoreUnavailable

Req = TypeVar("Req", bound=msgspec.Struct)
Rep = TypeVar("Rep", bound=msgspec.Struct)


def guarded(handler: Callable[[Req, Call], Awaitable[Rep]]) -> Callable[[Req, Call], Awaitable[Rep]]:
    """A handler whose database outage is `owner_unready`: nothing was executed, try again."""

    async def call(request: Req, circumstances: Call) -> Rep:
        try:
            return await handler(request, circumstances)
        except StoreUnavailable:
            raise OwnerUnready("the owner of the add-ons cannot reach the database: try again") from None

    return call
