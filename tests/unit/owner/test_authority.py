"""The owner knows one newest leader of each shard."""

import pytest

from services.owner.authority import Authority
from shared.config.sections import Database as DatabaseSettings
from shared.domain.errors import CallerFenced
from shared.store import Database


def test_an_older_term_is_refused_in_its_own_shard_only() -> None:
    authority = Authority(Database(DatabaseSettings(), name="unused"))
    assert authority.announce(0, 5)
    assert not authority.announce(0, 5), "the same leader is no newer one"
    assert authority.announce(1, 2)
    with pytest.raises(CallerFenced):
        authority.announce(0, 4)
    assert authority.announce(0, 6)
    assert not authority.announce(1, 2)
    assert authority.terms == {0: 6, 1: 2}
