"""The start/stop contract, named tasks and supervision.

- `Service`: start returns when ready or raises; stop waits until done and tolerates not-started and twice.
- `Stack`: starts services in order, undoes on failure, stops in reverse.
- `Tasks`: the only place that creates asyncio tasks; each has an owner, a name and a watcher.
"""

from shared.lifecycle.service import Service, Stack
from shared.lifecycle.tasks import Tasks, stop_event

__all__ = ["Service", "Stack", "Tasks", "stop_event"]
