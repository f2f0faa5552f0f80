"""A platform in memory, for tests of the host: pull and push, a read and a write tool, every fault on demand.

`control` says how it is steered; tokens look like `<account>:<anything>`.
"""

from pathlib import Path

from services.addons.probe import connector, tools
from services.addons.probe.control import OWN_OPS
from services.addons.probe.world import open_world
from shared.sdk.addon import Addon

ADDON = Addon(
    manifest=(Path(__file__).parent / "manifest.json").read_bytes(),
    open=open_world,
    ops={
        "poll": connector.poll,
        "me": connector.me,
        "send": connector.send,
        "edit": connector.edit,
        "delete": connector.delete,
        "typing": connector.typing,
        "probe.inject": connector.inject,
        "probe.fault": connector.fault,
        "probe.sent": connector.sent,
        "probe.effects": connector.effects,
    },
    tools={"probe_read": tools.read, "probe_write": tools.write},
    own_ops=OWN_OPS,
)
