"""Whether the links to the platforms are alive, as every frontend tells it: in `/readyz` and in the metrics.

It is a fact, not a reason to be unready: one bot whose platform is away must not take every frontend from a balancer.
"""

from shared.config.sections import Poll as PollSettings
from shared.lifecycle import Tasks
from shared.observe import metrics
from shared.observe.health import Finding, Health
from shared.store import Database, StoreUnavailable, liveness
from shared.store.liveness import Ages, Summary
from shared.store.repeat import repeat

#: seconds between two looks for the metrics
LOOK_SECONDS = 5.0


class Links:
    """A Service that keeps the metrics of the links up to date."""

    def __init__(self, database: Database, settings: PollSettings) -> None:
        self._database = database
        self._limit = settings.silence_seconds
        self._tasks = Tasks("links")

    async def start(self) -> None:
        self._tasks.run("look", repeat("links", LOOK_SECONDS, self._look))

    async def stop(self) -> None:
        await self._tasks.stop()

    def watch(self, health: Health) -> None:
        health.add("links", self._check)

    async def _look(self) -> Summary:
        found = await liveness.summary(self._database, self._limit)
        metrics.DEAF_BINDINGS.set(found.deaf)
        metrics.OLDEST_POLL.set(found.oldest_poll)
        metrics.OLDEST_FRAME.set(found.oldest_frame)
        return found

    async def _check(self) -> Finding:
        """IDs only: whoever may ask for readiness need not know the names of people's bots."""
        try:
            found = await self._look()
        except StoreUnavailable:
            return Finding(ok=True, facts={"deaf": None})
        facts = {
            "deaf": found.deaf,
            "deaf_ids": [each.id for each in found.worst if each.state == "deaf"],
            "worst": [_ages(each) for each in found.worst],
            "oldest_poll_seconds": round(found.oldest_poll, 3),
            "oldest_frame_seconds": round(found.oldest_frame, 3),
            "deaf_after_seconds": self._limit,
        }
        return Finding(ok=True, sentence=_sentence(found.deaf), facts=facts)


def _sentence(deaf: int) -> str:
    if deaf == 1:
        return "1 connection hears nothing from its platform; it says why in its liveness"
    return (
        f"{deaf} connections hear nothing from their platform; each says why in its liveness" if deaf else ""
    )


def _ages(each: Ages) -> dict[str, str | float | None]:
    return {
        "id": each.id,
        "state": each.state,
        "last_poll_seconds": _rounded(each.last_poll),
        "last_frame_seconds": _rounded(each.last_frame),
        "oldest_waiting_seconds": _rounded(each.oldest_waiting),
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
