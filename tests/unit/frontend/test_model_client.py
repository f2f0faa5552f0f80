"""What the client of the model server says about a request that failed."""

import pytest

from services.frontend.model import ModelClient, ModelProblem
from shared.config.sections import Model as ModelSettings
from tests.support.simulation import running

KEY = "model-key-of-this-server"


@pytest.mark.parametrize("method", ["chat/completions", "models"])
async def test_a_server_that_repeats_the_key_brings_it_into_no_log(method: str) -> None:
    async with running(validate=False) as sim:
        refusal = {"error": {"message": f"received key {KEY}, which is not valid"}}
        await sim.post("model/faults", {"method": method, "status": 401, "body": refusal})
        client = ModelClient(ModelSettings(url=f"{sim.url}/v1", api_key=KEY))
        await client.start()
        try:
            with pytest.raises(ModelProblem) as problem:
                await (client.models() if method == "models" else client.complete({"model": "sim-large"}))
        finally:
            await client.stop()
    assert problem.value.code == "model_key"
    assert "is not valid" in str(problem.value)
    assert KEY not in str(problem.value)
