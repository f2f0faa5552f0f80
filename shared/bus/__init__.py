"""Signals between processes: state first, then a signal that makes somebody look sooner.

- `subjects.py`: every signal and its payload.
- `bus.py`: the interface, and how a subscriber is fed.
- `memory.py`, `nats.py`: in one process, and over NATS.
"""

from shared.bus.bus import Bus, Subscription
from shared.bus.memory import MemoryBus
from shared.bus.nats import NatsBus
from shared.bus.subjects import Subject

__all__ = ["Bus", "MemoryBus", "NatsBus", "Subject", "Subscription"]
