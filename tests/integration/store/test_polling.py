"""The readers of a leader on a real store, with an owner whose answers the test sets."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar, Unpack

import msgspec
import pytest

from services.frontend.leader import polling
from services.frontend.leader.election import Term
from services.frontend.leader.polling import Polling
from shared.bus import MemoryBus
from shared.carrier import Call, DirectCarrier, Handlers
from shared.carrier import operations as ops
from shared.carrier.calls import Options
from shared.carrier.operation import Operation
from shared.config.sections import Poll as PollSettings
from shared.sdk.ops import Inbound, Person, PollResult
from shared.store import Database
from shared.store.leases import KEY_CHATS_CONNECTORS, Lease, Timing
from tests.support.until import until_answer

Req = TypeVar("Req", bound=msgspec.Struct)
Rep = TypeVar("Rep", bound=msgspec.Struct)
SETTINGS = PollSettings(wait_seconds=0.5, deaf_seconds=0.3, backoff_seconds=0.1)


class Owner(DirectCarrier):
    """Answers polls with `message` once; `surprise` is raised by the next polls, `hangs` of them never come back."""

    def __init__(self) -> None:
        handlers = Handlers()
        handlers.on(ops.ANNOUNCE, self._announced)
        handlers.on(ops.POLL, self._polled)
        super().__init__(handlers, authorize=_anybody)
        self.surprises = self.hangs = 0
        self.polls: list[tuple[str, float, float]] = []
        self.ended: list[float] = []

    async def call(self, op: Operation[Req, Rep], request: Req, /, **options: Unpack[Options]) -> Rep:
        if op.name == ops.POLL.name and self.surprises:
            self.surprises -= 1
            raise RuntimeError("nobody expected this")
        return await super().call(op, request, **options)

    async def _announced(self, _: ops.Announce, __: Call) -> ops.Nothing:
        return ops.Nothing()

    async def _polled(self, request: ops.Poll, call: Call) -> PollResult:
        self.polls.append((request.binding_id, request.wait_seconds, call.remaining))
        if self.hangs:
            self.hangs -= 1
            began = time.monotonic()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.append(time.monotonic() - began)
        if request.position == "":
            message = Inbound(chat="5001", sender=Person("5001"), id="1", text="hi", direct=True)
            return PollResult("2", [message])
        await asyncio.sleep(request.wait_seconds)
        return PollResult(request.position)


async def _anybody(*_: Any) -> None:
    """Everybody may."""


@asynccontextmanager
async def leading(store: Database, owner: Owner) -> AsyncIterator[Term]:
    """A won term with its duty."""
    lease = Lease(
        store, name="leader", shard=0, lock=(KEY_CHATS_CONNECTORS, 0), holder="f", timing=Timing(1, 60, 90)
    )
    assert await lease.try_acquire()
    term = Term(lease, 0)
    bus = MemoryBus()
    await bus.start()
    await owner.start()
    duty = Polling(database=store, bus=bus, carrier=owner, settings=SETTINGS, term=term)
    await duty.start()
    try:
        yield term
    finally:
        await duty.stop()
        await owner.stop()
        await bus.stop()
        await lease.close()


@pytest.fixture
async def linked(store: Database) -> Database:
    await store.execute(
        "INSERT INTO binding_secrets (binding_id, name, sealed) VALUES ('bnd_1', 'token', 'x')"
    )
    return store


async def stored(store: Database) -> Any:
    return await until_answer(
        lambda: store.fetchval("SELECT count(*) FROM inbound WHERE binding_id = 'bnd_1'")
    )


async def test_a_reader_that_meets_what_nobody_expected_goes_on(linked: Database) -> None:
    owner = Owner()
    owner.surprises = 3
    async with leading(linked, owner) as term:
        assert await stored(linked) == 1
        assert term.trusted


async def test_a_poll_that_hangs_at_the_owner_is_ended_in_the_stated_time(linked: Database) -> None:
    owner = Owner()
    owner.hangs = 1
    async with leading(linked, owner):
        assert await stored(linked) == 1
    stated = SETTINGS.deaf_seconds + ops.POLL_REPLY_SECONDS
    assert owner.ended[0] >= stated - 0.1
    assert owner.polls[0][2] <= stated


async def test_the_first_poll_waits_for_nothing_and_the_next_as_long_as_it_is_set(linked: Database) -> None:
    owner = Owner()
    async with leading(linked, owner):
        await until_answer(lambda: linked.fetchval("SELECT polled_at IS NOT NULL FROM binding_cursor"))
    assert [wait for _, wait, _ in owner.polls[:2]] == [0.0, SETTINGS.wait_seconds]


async def test_a_thousand_bindings_are_claimed_in_one_statement(linked: Database) -> None:
    await linked.execute(
        "INSERT INTO bindings (id, user_id, kind, name, enabled) SELECT 'more_' || n, 'usr_1', 'telegram', 'Bot', true "
        "FROM generate_series(2, $1::integer) n",
        polling.CLAIM_BATCH,
    )
    await linked.execute(
        "INSERT INTO binding_cursor (binding_id, position) SELECT id, '7' FROM bindings WHERE id <> 'bnd_1'"
    )
    await linked.execute(
        "INSERT INTO binding_secrets (binding_id, name, sealed) SELECT id, 'token', 'x' FROM bindings WHERE id <> 'bnd_1'"
    )
    owner = Owner()
    async with leading(linked, owner):
        await until_answer(lambda: linked.fetchval("SELECT bool_and(term > 0) FROM binding_cursor"))
    together = (
        "SELECT count(DISTINCT xmin::text) FROM binding_cursor WHERE position = '7' AND polled_at IS NULL"
    )
    assert await linked.fetchval(together) <= 1
