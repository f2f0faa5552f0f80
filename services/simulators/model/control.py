"""Control routes of the model stand-in."""

from typing import Annotated

import msgspec
from aiohttp import web

from services.simulators.control import answer, body_of
from services.simulators.model.api import ModelApi
from services.simulators.model.script import Script, Scripts


class Models(msgspec.Struct, forbid_unknown_fields=True):
    """The IDs that the server knows from now on."""

    ids: Annotated[list[str], msgspec.Meta(min_length=1)]


class ModelControl:
    def __init__(self, api: ModelApi, scripts: Scripts) -> None:
        self._api = api
        self._scripts = scripts

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_post("/_sim/model/script", self.add_script)
        router.add_delete("/_sim/model/script", self.clear_scripts)
        router.add_post("/_sim/model/models", self.set_models)

    async def add_script(self, request: web.Request) -> web.Response:
        script = await body_of(request, Script)
        self._scripts.add(script)
        return answer({"steps": len(script.steps)})

    async def clear_scripts(self, _request: web.Request) -> web.Response:
        self._scripts.clear()
        return answer({"steps": 0})

    async def set_models(self, request: web.Request) -> web.Response:
        self._api.models = (await body_of(request, Models)).ids
        return answer({"models": self._api.models})
