"""The bus that the settings ask for."""

import ssl

from shared.bus.bus import Bus
from shared.bus.memory import MemoryBus
from shared.bus.nats import NatsBus
from shared.config.sections import Nats


def bus_for(settings: Nats, *, name: str) -> Bus:
    """NATS where an address is set, else this process's own memory."""
    if not settings.url:
        return MemoryBus()
    tls = None
    if settings.ca_file:
        tls = ssl.create_default_context(cafile=settings.ca_file)
        if settings.cert_file:
            tls.load_cert_chain(settings.cert_file, settings.key_file or None)
    return NatsBus(settings.url, tls=tls, name=name)
