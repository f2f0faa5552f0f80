"""Rate budgets of a binding and waits of a chat.

Every call of a binding draws on one bucket. Previews and typing take what is left above a reserve; working messages
and notices wait for a free place; a final answer never waits here, it may even overdraw: only the platform's own
retry time holds it back. Source: architecture, step 6; platform facts: 30 calls a second over all chats.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

#: share of the burst that previews and typing leave for messages
RESERVE = 0.25
#: what adding up fractions of a second may lose
ROUNDING = 1e-6
#: budgets kept in memory; the oldest unused go first
KEPT = 8192
#: the longest wait of a chat, in seconds, before the platform is asked again
LONGEST_HOLD = 900.0


@dataclass(slots=True)
class _Budget:
    rate: float
    burst: float
    left: float
    at: float
    next_preview: float = 0.0
    held_until: float = 0.0
    chats: dict[str, float] = field(default_factory=dict)


class Pacer:
    """All budgets of one owner. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._budgets: OrderedDict[str, _Budget] = OrderedDict()

    def spend(self, binding_id: str, rate: float, burst: int) -> None:
        """Count one call that goes out whatever the budget says."""
        self._budget(binding_id, rate, burst).left -= 1

    def wait_for_place(self, binding_id: str, rate: float, burst: int) -> float:
        """Take a place and return 0, or return the seconds until there may be one."""
        budget = self._budget(binding_id, rate, burst)
        if budget.left < 1 - ROUNDING:
            return (1 - budget.left) / budget.rate
        budget.left -= 1
        return 0.0

    def try_spare(self, binding_id: str, chat: str, rate: float, burst: int) -> bool:
        """Take a call for something that may be left out, such as typing; False when messages need the budget."""
        budget = self._budget(binding_id, rate, burst)
        if self.held(binding_id, chat) or budget.left - 1 < burst * RESERVE:
            return False
        budget.left -= 1
        return True

    def preview_wait(self, binding_id: str, chat: str, rate: float, burst: int, spacing: float) -> float:
        """Take a preview and return 0, or return the seconds until one may be tried again.

        `spacing` is the least time between previews of the binding, over all its chats (ANS-33).
        """
        budget = self._budget(binding_id, rate, burst)
        now = self._clock()
        wait = max(budget.next_preview, budget.held_until) - now
        wait = max(wait, self.held(binding_id, chat))
        if budget.left - 1 < burst * RESERVE:
            wait = max(wait, (burst * RESERVE + 1 - budget.left) / budget.rate)
        if wait > 0:
            return wait
        budget.left -= 1
        budget.next_preview = now + spacing
        return 0.0

    def hold(self, binding_id: str, chat: str, seconds: float) -> None:
        """The platform asked to wait: nothing goes to this chat before that, and no preview of the binding."""
        budget = self._budgets.get(binding_id) or self._budget(binding_id, 30.0, 30)
        # A longer one is asked for again; otherwise what waits behind it would never get too old.
        until = self._clock() + min(seconds, LONGEST_HOLD)
        budget.chats[chat] = max(budget.chats.get(chat, 0.0), until)
        budget.held_until = max(budget.held_until, until)

    def held(self, binding_id: str, chat: str) -> float:
        """Seconds until the platform's wait for this chat is over; 0 when there is none."""
        budget = self._budgets.get(binding_id)
        if budget is None or chat not in budget.chats:
            return 0.0
        left = budget.chats[chat] - self._clock()
        if left <= 0:
            del budget.chats[chat]
        return max(0.0, left)

    def _budget(self, binding_id: str, rate: float, burst: int) -> _Budget:
        now = self._clock()
        budget = self._budgets.get(binding_id)
        if budget is None:
            budget = self._budgets[binding_id] = _Budget(rate, burst, burst, now)
            while len(self._budgets) > KEPT:
                self._budgets.popitem(last=False)
            return budget
        self._budgets.move_to_end(binding_id)
        budget.rate, budget.burst = rate, burst
        budget.left = min(float(burst), budget.left + (now - budget.at) * rate)
        budget.at = now
        return budget
