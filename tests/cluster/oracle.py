"""The oracle for every chat: what people see against what is stored.

After a run every accepted message has exactly one visible answer (or one recorded refusal), in order, and the visible
text equals the stored answer. A working message whose ID was lost may stay behind: that is a recorded doubtful step.
"""

from typing import Any

from tests.support.cluster import Cluster

WORKING = "Working…"


async def check(cluster: Cluster, chat: int, expected: list[str]) -> None:
    """The bot's visible messages of a chat are these answers, each once and in order, and nothing else."""
    shown = [m["text"] for m in await cluster.sim.messages(chat) if m["from_bot"] and not m["deleted"]]
    doubtful = await cluster.fetchval(
        "SELECT count(*) FROM deliveries WHERE platform_chat = $1 AND purpose = 'working' AND state = 'unknown'",
        str(chat),
    )
    answers = [text for text in shown if text != WORKING]
    assert answers == expected, f"chat {chat} shows {shown}"
    assert shown.count(WORKING) <= doubtful, f"chat {chat} shows a working message nobody knows of: {shown}"
    assert await stored_answers(cluster, chat) == expected
    await check_rows(cluster, chat)


async def stored_answers(cluster: Cluster, chat: int) -> list[str]:
    rows = await cluster.fetch(
        "SELECT m.content FROM messages m JOIN chats c ON c.id = m.chat_id JOIN turns t ON t.answer_seq = m.seq "
        "AND t.chat_id = m.chat_id WHERE c.platform_chat = $1 ORDER BY m.seq",
        str(chat),
    )
    return [row["content"] for row in rows]


async def check_rows(cluster: Cluster, chat: int) -> None:
    """Nothing waits, nothing is claimed, and no message was covered twice."""
    left: list[Any] = await cluster.fetch(
        "SELECT 'inbound', id FROM inbound WHERE platform_chat = $1 AND state = 'new' UNION ALL "
        "SELECT 'delivery', id FROM deliveries WHERE platform_chat = $1 AND state IN ('planned', 'sending') UNION ALL "
        "SELECT 'turn', t.id FROM turns t JOIN chats c ON c.id = t.chat_id WHERE c.platform_chat = $1 AND t.state = 'running'",
        str(chat),
    )
    assert not left, left
    doubled = await cluster.fetchval(
        "SELECT count(*) FROM (SELECT m.inbound_id FROM messages m JOIN chats c ON c.id = m.chat_id "
        "WHERE c.platform_chat = $1 AND m.inbound_id IS NOT NULL GROUP BY 1 HAVING count(*) > 1) d",
        str(chat),
    )
    assert doubled == 0
