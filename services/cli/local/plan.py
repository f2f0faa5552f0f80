"""What a local cluster is to be, and the settings that each of its processes gets from that."""

import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from services.cli.local.engine import free_port
from shared.config import Settings

DEMO_MODEL = "sim-large"


def _demo_bot() -> str:
    """A new bot at each start: the simulators remember none, so an old one would meet numbers it has seen before."""
    return f"{secrets.randbelow(9 * 10**9) + 10**9}:{secrets.token_urlsafe(26)}"


@dataclass(frozen=True, slots=True)
class Plan:
    """`port` is the first frontend's; 0 takes any free one. `fast_database` is for tests: it can lose data.

    With `contracts` the simulators hold all calls against the API descriptions of that folder.
    """

    frontends: int = 1
    port: int = 8080
    demo: bool = False
    combined: bool = False
    contracts: Path | None = None
    fast_database: bool = False
    carrier_port: int = field(default_factory=free_port)
    simulator_port: int = field(default_factory=free_port)
    demo_bot: str = field(default_factory=_demo_bot)

    @property
    def simulators_url(self) -> str:
        return f"http://127.0.0.1:{self.simulator_port}"


@dataclass(slots=True)
class Environment:
    """Builds the environment of each child; what the operator has set himself stays where it may differ.

    `database_url` and `nats_url` are set once they are known.
    """

    plan: Plan
    settings: Settings
    folder: Path
    database_url: str = ""
    nats_url: str = ""

    def everyone(self) -> dict[str, str]:
        made = {"TRUNKLINE_DATABASE_URL": self.database_url, "TRUNKLINE_NATS_URL": self.nats_url}
        if not self.settings.sealing.key_file:
            made["TRUNKLINE_SEALING_KEY_FILE"] = str(self.folder / "connectors.key")
        return made

    def frontend(self, number: int, port: int) -> dict[str, str]:
        made = self.everyone() | self._carrier() | self._model()
        made["TRUNKLINE_FRONTEND_ID"] = f"frontend-{number}-{secrets.token_hex(2)}"
        made["TRUNKLINE_HTTP_PORT"] = str(port)
        return made | self._addons() if self.plan.combined else made

    def owner(self) -> dict[str, str]:
        listen = {"TRUNKLINE_CARRIER_HOST": "127.0.0.1", "TRUNKLINE_OWNER_HTTP_PORT": "0"}
        return self.everyone() | self._carrier() | self._addons() | listen

    def _carrier(self) -> dict[str, str]:
        return {
            "TRUNKLINE_CARRIER_URL": f"https://127.0.0.1:{self.plan.carrier_port}",
            "TRUNKLINE_CARRIER_PORT": str(self.plan.carrier_port),
            "TRUNKLINE_CARRIER_FOLDER": str(self.folder / "certs"),
            "TRUNKLINE_CARRIER_NAME": "local",
        }

    def _addons(self) -> dict[str, str]:
        made = {}
        if not self.settings.owner.root:
            made["TRUNKLINE_OWNER_ROOT"] = str(self.folder / "addons")
        if self.plan.demo:
            made["TRUNKLINE_OWNER_DEVELOPMENT_HOSTS"] = json.dumps({"telegram_api": self.plan.simulators_url})
            if not self.settings.owner.preinstalled:
                made["TRUNKLINE_OWNER_PREINSTALLED"] = "telegram"
        return made

    def _model(self) -> dict[str, str]:
        if self.plan.demo and not self.settings.model.url:
            return {"TRUNKLINE_MODEL_URL": f"{self.plan.simulators_url}/v1"}
        return {}

    @property
    def demo_model(self) -> str:
        """The model of the sample agent; with the operator's own server its default is asked for."""
        return "" if self.settings.model.url else DEMO_MODEL
