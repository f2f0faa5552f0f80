"""Who should lead which shard, for any number of shards and frontends, and whoever leads now."""

from collections import Counter
from collections.abc import Mapping
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from services.frontend.leader.spread import spread

NAMES = [f"f{n}" for n in range(9)]


@st.composite
def standings(draw: st.DrawFn) -> tuple[int, list[str], dict[int, str], dict[int, str]]:
    """Shards, candidates, leaders and former leaders; some of these live no more."""
    shards = draw(st.integers(1, 16))
    candidates = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True))
    led: dict[int, str] = {}
    last: dict[int, str] = {}
    for shard in range(shards):
        known = draw(st.sampled_from([led, last, {}]))
        known[shard] = draw(st.sampled_from(NAMES))
    return shards, candidates, led, last


Case = tuple[int, list[str], dict[int, str], dict[int, str]]


def moved(led: Mapping[int, str], wanted: Mapping[int, str], candidates: list[str]) -> int:
    """How many shards a living leader has to give away."""
    return sum(holder in candidates and wanted[shard] != holder for shard, holder in led.items())


@given(standings())
def test_every_shard_is_given_to_one_candidate(case: Case) -> None:
    shards, candidates, _, _ = case
    wanted = spread(*case)
    assert sorted(wanted) == list(range(shards))
    assert set(wanted.values()) <= set(candidates)


@given(standings())
def test_no_two_candidates_differ_by_more_than_one_shard(case: Case) -> None:
    shards, candidates, _, _ = case
    count = Counter(spread(*case).values())
    share, more = divmod(shards, len(candidates))
    expected = [share + 1] * more + [share] * (len(candidates) - more)
    assert sorted((count[name] for name in candidates), reverse=True) == expected


@given(standings())
def test_as_few_shards_as_possible_change_hands(case: Case) -> None:
    shards, candidates, led, _ = case
    share, more = divmod(shards, len(candidates))
    leads = Counter(led.values())
    # Whatever the shares are, a leader gives away what is above its own; the larger shares save one move each.
    excess = sum(max(0, leads[name] - share) for name in candidates)
    saved = min(more, sum(leads[name] > share for name in candidates))
    assert moved(led, spread(*case), candidates) == excess - saved


@given(standings())
def test_a_balanced_spread_is_kept(case: Case) -> None:
    shards, candidates, _, _ = case
    wanted = spread(*case)
    assert spread(shards, candidates, wanted, {}) == wanted


@given(standings(), st.randoms(use_true_random=False))
def test_the_order_of_what_was_read_does_not_matter(case: Case, random: Random) -> None:
    shards, candidates, led, last = case
    names, held, lost = list(candidates), list(led.items()), list(last.items())
    for read in (names, held, lost):
        random.shuffle(read)
    assert spread(shards, names, dict(held), dict(lost)) == spread(*case)


@given(st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), unique=True))
def test_the_only_shard_never_moves_because_somebody_came(leader: str, others: list[str]) -> None:
    assert spread(1, {leader, *others}, {0: leader}, {}) == {0: leader}


@given(st.lists(st.sampled_from(NAMES), min_size=2, unique=True))
def test_the_only_shard_of_one_that_is_gone_is_not_given_to_it_again(candidates: list[str]) -> None:
    assert spread(1, candidates, {}, {0: candidates[0]})[0] != candidates[0]


def test_four_shards_as_the_page_on_leadership_tells_it() -> None:
    led = spread(4, "a", {}, {})
    assert led == {0: "a", 1: "a", 2: "a", 3: "a"}
    led = spread(4, "ab", led, {})
    assert led == {0: "a", 1: "a", 2: "b", 3: "b"}
    led = spread(4, "abc", led, {})
    assert led == {0: "a", 1: "a", 2: "b", 3: "c"}
    led = spread(4, "bc", {2: "b", 3: "c"}, {0: "a", 1: "a"})
    assert led == {0: "b", 1: "c", 2: "b", 3: "c"}
    led = spread(4, "abc", led, {})
    assert led == {0: "b", 1: "c", 2: "b", 3: "a"}


def test_nobody_leads_where_nobody_is() -> None:
    assert spread(3, [], {0: "gone"}, {}) == {}
