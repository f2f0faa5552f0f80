"""A second reader of the same bot that does not go away."""

import pytest

from tests.support.rig import rig

CONFLICT = {"ok": False, "error_code": 409, "description": "Conflict: terminated by other getUpdates request"}


@pytest.mark.req("OFF-03")
async def test_conflicts_without_end_switch_the_binding_off_with_a_reason(database_url: str) -> None:
    async with rig(
        database_url, poll={"wait_seconds": 1.0, "conflict_seconds": 1.0, "backoff_seconds": 0.2}
    ) as path:
        bot = await path.bot()
        await path.fault(bot, "getUpdates", status=409, body=CONFLICT, times=1000)
        await path.eventually("SELECT NOT enabled FROM bindings WHERE id = $1", bot.binding)
        reason = await path.database.fetchval("SELECT off_reason FROM bindings WHERE id = $1", bot.binding)
        told = await path.database.fetchval("SELECT count(*) FROM notifications WHERE user_id = $1", bot.user)
    assert "Another program keeps reading" in reason
    assert told == 1
