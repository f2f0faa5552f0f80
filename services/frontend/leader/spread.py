"""Who should lead which shard: a pure function, so that all frontends agree when they have read the same rows.

Each frontend gets as many shards as every other, or one more. Who leads keeps what it leads up to that number, so as
few shards as possible change hands, and a single shard never moves just because somebody came.
"""

from collections import Counter
from collections.abc import Collection, Mapping


def spread(
    shards: int, candidates: Collection[str], led: Mapping[int, str], last: Mapping[int, str]
) -> dict[int, str]:
    """Shard -> the frontend that should lead it; empty without candidates.

    `led` are the shards with a leader and who it is, `last` the others with who led them last. A leader that is no
    candidate, as one that stops, keeps nothing.
    """
    if not candidates:
        return {}
    count = Counter(led.values())
    lost = set(last.values())
    # The larger shares go to those that lead most: nobody gives up a shard that somebody must lead anyway. Who has
    # just lost one comes late: perhaps it is dead, and that does not show yet.
    order = sorted(set(candidates), key=lambda name: (-count[name], name in lost, name))
    share, more = divmod(shards, len(order))
    room = {name: share + (place < more) for place, name in enumerate(order)}
    wanted: dict[int, str] = {}
    for shard in range(shards):
        holder = led.get(shard, "")
        if room.get(holder, 0):
            wanted[shard] = holder
            room[holder] -= 1
    free = (shard for shard in range(shards) if shard not in wanted)
    wanted.update(zip(free, (name for name in order for _ in range(room[name])), strict=True))
    return wanted
