"""What the client of the model server says about a request that failed."""

import pytest

from services.frontend.model import ModelClient, ModelProblem
from shared.config.sections import Model as ModelSettings
from shared.i18n import say
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


async def test_an_answer_that_never_ends_is_broken_off_although_it_flows_all_the_time() -> None:
    shown: list[str] = []
    async with running(validate=False) as sim:
        await sim.post("model/script", {"steps": [{"text": "and so on "}] * 3000, "delay_ms": 20})
        client = ModelClient(ModelSettings(url=f"{sim.url}/v1", idle_seconds=30.0, total_seconds=1.0))
        await client.start()
        try:
            with pytest.raises(ModelProblem) as problem:
                await client.complete(
                    {"model": "sim-large", "messages": [{"role": "user", "content": "tell me all"}]},
                    shown.append,
                )
        finally:
            await client.stop()
    assert problem.value.code == "model_endless"
    assert "end of its answer" in say(problem.value.code)
    assert shown
