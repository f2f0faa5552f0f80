"""Accounts, for administrators."""

from typing import Annotated, Literal

import msgspec

from services.frontend.api.call import Call
from services.frontend.api.errors import ApiError, conflict, not_found
from services.frontend.api.passwords import LONGEST, PASSWORDS, SHORTEST
from services.frontend.api.routes import Route
from services.frontend.api.views import Name, UserView, clean
from shared.bus import subjects
from shared.store import Connection, audit, bindings, people
from shared.store.people import FEATURES, USUAL_FEATURES, NameTaken

Feature = Literal["chats", "agents", "connectors", "addons", "triggers", "mcp"]
assert set(FEATURES) == set(Feature.__args__)  # type: ignore[attr-defined]


class UserNew(msgspec.Struct, forbid_unknown_fields=True):
    """Without a password the account cannot sign in; without features it has the usual ones."""

    name: Name
    password: Annotated[str, msgspec.Meta(min_length=SHORTEST, max_length=LONGEST)] | None = None
    role: Literal["admin", "user"] = "user"
    features: list[Feature] | msgspec.UnsetType = msgspec.UNSET


class FeaturesGiven(msgspec.Struct, forbid_unknown_fields=True):
    features: list[Feature]


class Users(msgspec.Struct):
    users: list[UserView]
    features: list[str]


async def listed(call: Call) -> Users:
    """All accounts, and all features there are."""
    users = await people.listed(call.services.database)
    return Users([UserView.of(user) for user in users], list(FEATURES))


async def create(call: Call, body: UserNew) -> UserView:
    hashed = await call.request.app[PASSWORDS].hash(body.password) if body.password else None
    features = USUAL_FEATURES if isinstance(body.features, msgspec.UnsetType) else body.features
    async with call.services.database.transaction() as connection:
        try:
            user_id = await people.add(
                connection, name=clean(body.name), role=body.role, password_hash=hashed, features=features
            )
        except NameTaken:
            raise conflict("this name is taken", "name") from None
        await audit.write(connection, call.user.id, "user.add", user_id, role=body.role)
        return await _view(connection, user_id)


async def read(call: Call) -> UserView:
    return await _view(call.services.database, call.path("id"))


async def set_features(call: Call, body: FeaturesGiven) -> UserView:
    user_id = call.path("id")
    async with call.services.database.transaction() as connection:
        if not await people.set_features(connection, user_id, body.features):
            raise not_found("user")
        await audit.write(connection, call.user.id, "user.features", user_id, features=body.features)
    return await _view(call.services.database, user_id)


async def enable(call: Call) -> UserView:
    return await _switch(call, enabled=True)


async def disable(call: Call) -> UserView:
    return await _switch(call, enabled=False)


async def remove(call: Call) -> None:
    user_id = call.path("id")
    async with call.services.database.transaction() as connection:
        await _keep_an_admin(connection, user_id)
        gone = await bindings.listed(connection, user_id)
        if not await people.remove(connection, user_id):
            raise not_found("user")
        await audit.write(connection, call.user.id, "user.remove", user_id)
    for binding in gone:
        call.services.bus.publish(subjects.BINDING_CHANGED, subjects.BindingChanged(), key=binding.id)


async def _switch(call: Call, *, enabled: bool) -> UserView:
    user_id = call.path("id")
    async with call.services.database.transaction() as connection:
        if not enabled:
            await _keep_an_admin(connection, user_id)
        if not await people.set_enabled(connection, user_id, enabled):
            raise not_found("user")
        await audit.write(connection, call.user.id, "user.enable" if enabled else "user.disable", user_id)
        return await _view(connection, user_id)


async def _keep_an_admin(connection: Connection, leaving: str) -> None:
    if await people.enabled_admins(connection) == [leaving]:
        raise ApiError(409, "conflict_error", "this is the last administrator", param="id")


async def _view(connection: Connection, user_id: str) -> UserView:
    user = await people.one(connection, user_id)
    if user is None:
        raise not_found("user")
    return UserView.of(user)


ROUTES = [
    Route("GET", "/api/users", listed, "All accounts", "admin"),
    Route("POST", "/api/users", create, "Make an account", "admin", status=201),
    Route("GET", "/api/users/{id}", read, "One account", "admin"),
    Route("PUT", "/api/users/{id}/features", set_features, "Give an account these features", "admin"),
    Route("POST", "/api/users/{id}/enable", enable, "Switch an account on", "admin"),
    Route("POST", "/api/users/{id}/disable", disable, "Switch an account off", "admin"),
    Route("DELETE", "/api/users/{id}", remove, "Delete an account and all that is its own", "admin"),
]
