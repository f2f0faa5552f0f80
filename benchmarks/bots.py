"""Bots of the simulator, connected to a cluster of ours."""

from typing import Any

from benchmarks.load import token
from tests.support.cluster import Cluster

#: what a cluster needs to be set to, so that its own limits are not what is measured
SETTINGS = {
    "TRUNKLINE_LIMITS_SENDER_PER_MINUTE": "1000000",
    "TRUNKLINE_LIMITS_BINDINGS_PER_USER": "100",
    "TRUNKLINE_LOG_LEVEL": "warning",
}


async def connect(cluster: Cluster, *, first: int, bots: int) -> None:
    """`bots` bots of one agent, beginning with number `first`, open to everybody."""
    agent = {"name": "Bench", "model": "sim-large", "tools": False}
    agent_id = (await _asked(cluster, "/api/agents", agent))["id"]
    for n in range(bots):
        binding = {"kind": "telegram", "name": f"Bot {n}", "token": token(first + n), "agent_id": agent_id}
        binding |= {"enabled": True, "accept_any": True, "confirm_accept_any": "accept any message"}
        await _asked(cluster, "/api/chats/connectors", binding)


async def _asked(cluster: Cluster, path: str, body: dict[str, Any]) -> dict[str, Any]:
    status, answer = await cluster.api("POST", path, json=body)
    if status not in {200, 201}:
        raise SystemExit(f"{path} answered {status}: {answer}")
    return dict(answer)
