"""The models that the model server offers."""

import msgspec
import structlog

from services.frontend.api.call import Call
from services.frontend.api.errors import ApiError, invalid
from services.frontend.api.routes import Route
from services.frontend.api.services import Services
from services.frontend.model import ModelProblem

log = structlog.get_logger(__name__)
UNASKED = "The model server cannot be asked now whether it has this model."


class Models(msgspec.Struct):
    models: list[str]


async def listed(call: Call) -> Models:
    try:
        return Models(await call.services.model.models())
    except ModelProblem as problem:
        log.info("models_not_listed", problem=str(problem))
        message = (
            "the model server cannot be asked for its models: "
            "check that it runs and that TRUNKLINE_MODEL_URL names it"
        )
        raise ApiError(503, "server_error", message, code=problem.code) from None


async def check(services: Services, model: str) -> str:
    """A warning when the server cannot be asked, else empty. Raises ApiError 400 for a model it does not offer."""
    try:
        offered = await services.model.models()
    except ModelProblem as problem:
        log.info("model_not_checked", problem=str(problem))
        return UNASKED
    if model not in offered:
        names = ", ".join(offered[:50]) or "none"
        raise invalid(
            f"the model server does not offer {model!r}; it offers: {names}", "model", "model_missing"
        )
    return ""


ROUTES = [Route("GET", "/api/models", listed, "The models that agents can use")]
