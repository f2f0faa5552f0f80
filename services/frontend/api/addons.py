"""The add-on gallery: what can be installed, what runs. The owner does it; only administrators change it."""

from typing import Annotated

import msgspec

from services.frontend.api.call import Call
from services.frontend.api.routes import Route
from shared.carrier import operations as ops
from shared.carrier.operations import Listed
from shared.domain.ids import new_id


class InstallBody(msgspec.Struct, forbid_unknown_fields=True):
    """`source` is `bundled` or a folder on the owner's machine; `digest` is that of the gallery's entry."""

    source: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    id: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    digest: Annotated[str, msgspec.Meta(min_length=1, max_length=128)]


class Gallery(msgspec.Struct):
    addons: list[Listed]


async def listed(call: Call) -> Gallery:
    answer = await call.services.carrier.call(ops.GALLERY, ops.Nothing(), actor=call.user.id)
    return Gallery(answer.addons)


async def install(call: Call, body: InstallBody) -> Listed:
    request = ops.Install(body.source, body.id, body.digest)
    return await call.services.carrier.call(ops.INSTALL, request, actor=call.user.id, operation=new_id("op"))


async def enable(call: Call) -> Listed:
    return await call.services.carrier.call(
        ops.ENABLE, ops.AddonId(call.path("id")), actor=call.user.id, operation=new_id("op")
    )


async def disable(call: Call) -> Listed:
    return await call.services.carrier.call(
        ops.DISABLE, ops.AddonId(call.path("id")), actor=call.user.id, operation=new_id("op")
    )


async def remove(call: Call) -> None:
    """Remove an add-on; its data and the bindings that it served stay."""
    await call.services.carrier.call(
        ops.REMOVE, ops.AddonId(call.path("id")), actor=call.user.id, operation=new_id("op")
    )


ROUTES = [
    Route("GET", "/api/addons", listed, "The gallery", "addons"),
    Route("POST", "/api/addons", install, "Install an add-on by digest", "admin", status=201),
    Route("POST", "/api/addons/{id}/enable", enable, "Switch an add-on on", "admin"),
    Route("POST", "/api/addons/{id}/disable", disable, "Switch an add-on off", "admin"),
    Route("DELETE", "/api/addons/{id}", remove, "Remove an add-on", "admin"),
]
