"""Faithful stand-ins of the outside world, on one loopback port, for tests, the demo and the benchmarks.

- `app`: `Simulators` (the service) and `build_app` (the aiohttp application)
- `control`: the control API that every stand-in shares: calls, faults, waiting, live changes
- `calls`, `faults`, `state`: the log of received calls, faults on demand, what the stand-ins share
- `contracts`: requests and answers held against the written API descriptions
- `telegram`, `model`: one package a stand-in
- `demo`, `static`: the page where a person chats with the sample bot
"""

from services.simulators.app import Simulators, build_app

__all__ = ["Simulators", "build_app"]
