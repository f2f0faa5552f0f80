"""Chats of the web: talking to an agent, reading on, and following what happens over several frontends."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import msgspec
import pytest

from shared.store import Database, turns
from shared.store.turns import NewMessage
from tests.support.frontend import Client, Running, ScriptedOwner, running_frontend, settings_for
from tests.support.nats import NatsServer
from tests.support.simulation import Sim, running


@pytest.fixture
async def sim() -> AsyncIterator[Sim]:
    async with running(validate=False) as sim:
        yield sim


@pytest.fixture
async def talking(
    database_url: str, database: Database, owner: ScriptedOwner, sim: Sim
) -> AsyncIterator[Running]:
    """A frontend with a model server."""
    settings = settings_for(database_url, model=f"{sim.url}/v1")
    async with running_frontend(settings, owner.carrier(), database) as api:
        yield api


async def new_chat(client: Client) -> str:
    agent = await client.post("/api/agents", {"name": "helper", "model": "sim-large"}, status=201)
    return str((await client.post("/api/chats", {"agent_id": agent["id"]}, status=201))["id"])


class Follower:
    """Reads the events of a chat, as a browser does."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.last_id = 0
        self.messages: list[Any] = []
        self.kinds: list[str] = []

    async def until(self, kind: str) -> Any:
        """The data of the next event of this kind; everything on the way is kept."""
        async with asyncio.timeout(20):
            event: dict[str, str] = {}
            async for raw in self._response.content:
                line = raw.decode().rstrip("\n")
                name, _, value = line.partition(": ")
                if line:
                    event[name] = value
                    continue
                found, event = event, {}
                if "event" not in found:
                    continue
                self.kinds.append(found["event"])
                data = msgspec.json.decode(found["data"])
                if found["event"] == "message":
                    assert int(found["id"]) == data["seq"]
                    self.last_id = data["seq"]
                    self.messages.append(data)
                if found["event"] == kind:
                    return data
        raise AssertionError("the stream ended")


class Follow(Protocol):
    """Begins to follow a chat of a client."""

    async def __call__(
        self, client: Client, chat: str, after: int = 0, *, header: bool = False
    ) -> Follower: ...


@pytest.fixture
async def follow() -> AsyncIterator[Follow]:
    opened: list[aiohttp.ClientResponse] = []

    async def begin(client: Client, chat: str, after: int = 0, *, header: bool = False) -> Follower:
        headers = {"Authorization": f"Bearer {client.key}"} | (
            {"Last-Event-ID": str(after)} if header else {}
        )
        query = "" if header else f"?after={after}"
        place = f"{client.base}/api/chats/{chat}/events{query}"
        response = await client.http.get(place, headers=headers)
        opened.append(response)
        assert (response.status, response.content_type) == (200, "text/event-stream")
        return Follower(response)

    yield begin
    for response in opened:
        response.close()


async def test_an_agent_answers_in_a_chat_of_the_web(talking: Running, follow: Follow) -> None:
    chat = await new_chat(talking.admin)
    events = await follow(talking.admin, chat)
    started = await talking.admin.post(f"/api/chats/{chat}/messages", {"text": "hello"}, status=202)
    assert started == {"started": True, "seq": 1}
    await events.until("turn_end")
    read = await talking.admin.get(f"/api/chats/{chat}")
    assert [m["content"] for m in read["messages"]] == ["hello", "You said: hello"]
    assert read["messages"] == events.messages
    assert (read["chat"]["running"], read["chat"]["position"]) == (False, 2)
    assert events.kinds == ["message", "message", "turn_end"]


async def test_a_message_while_a_turn_runs_is_answered_too(
    talking: Running, follow: Follow, sim: Sim
) -> None:
    await sim.post(
        "model/script", {"match": {"contains": "first"}, "steps": [{"text": "one"}], "delay_ms": 300}
    )
    chat = await new_chat(talking.admin)
    events = await follow(talking.admin, chat)
    place = f"/api/chats/{chat}"
    await talking.admin.post(f"{place}/messages", {"text": "first"}, status=202)
    await talking.admin.post(f"{place}/messages", {"text": "second"}, status=202)
    for method, sent in (("PATCH", {"title": "t"}), ("DELETE", None)):
        assert (await talking.admin.refused(409, method, place, sent))["code"] == "turn_running"
    while not any(m["content"] == "You said: second" for m in events.messages):
        await events.until("message")
    await events.until("turn_end")
    assert (await talking.admin.call("PATCH", place, {"title": "Named  now"}))[1]["title"] == "Named now"
    await talking.admin.delete(place)
    assert await talking.database.fetchval("SELECT count(*) FROM messages") == 0


async def test_a_stream_resumes_where_it_broke_off(talking: Running, follow: Follow) -> None:
    chat = await new_chat(talking.admin)
    events = await follow(talking.admin, chat)
    await talking.admin.post(f"/api/chats/{chat}/messages", {"text": "one"}, status=202)
    await events.until("message")
    again = await follow(talking.admin, chat, events.last_id, header=True)
    assert await again.until("turn_end")
    assert [m["seq"] for m in again.messages] == [2]
    later = await follow(talking.admin, chat, 2)
    assert (await later.until("turn_end")) and later.messages == []


async def test_long_chats_come_in_pages(talking: Running, follow: Follow) -> None:
    chat = await new_chat(talking.admin)
    async with talking.database.transaction() as connection:
        await turns.append(connection, chat, [NewMessage("note", str(n)) for n in range(250)], answer=False)
    events = await follow(talking.admin, chat)
    for _ in range(250):
        await events.until("message")
    assert [m["content"] for m in events.messages] == [str(n) for n in range(250)]
    page = await talking.admin.get(f"/api/chats/{chat}?after=200&limit=20")
    assert [m["seq"] for m in page["messages"]] == list(range(201, 221))
    assert (await talking.admin.refused(400, "GET", f"/api/chats/{chat}?after=-1"))["param"] == "after"


async def test_the_list_comes_newest_first_in_pages(talking: Running) -> None:
    agent = await talking.admin.post("/api/agents", {"name": "helper", "model": "sim-large"}, status=201)
    made = [
        (await talking.admin.post("/api/chats", {"agent_id": agent["id"], "title": str(n)}, status=201))["id"]
        for n in range(5)
    ]
    first = await talking.admin.get("/api/chats?limit=3")
    assert [chat["id"] for chat in first["chats"]] == made[:1:-1]
    rest = await talking.admin.get(f"/api/chats?limit=3&before={first['chats'][-1]['id']}")
    assert [chat["id"] for chat in rest["chats"]] == made[1::-1]


async def test_a_chat_of_another_does_not_exist(talking: Running) -> None:
    chat = await new_chat(talking.admin)
    bob = await talking.person("Bob", "chats")
    place = f"/api/chats/{chat}"
    for method, path, sent in [
        ("GET", place, None),
        ("GET", f"{place}/events", None),
        ("PATCH", place, {"title": "x"}),
        ("DELETE", place, None),
        ("POST", f"{place}/messages", {"text": "x"}),
    ]:
        await bob.refused(404, method, path, sent)
    assert (await bob.get("/api/chats")) == {"chats": []}


async def test_a_messaging_chat_is_read_here_and_written_on_its_platform(talking: Running) -> None:
    chat = await new_chat(talking.admin)
    await talking.database.execute("UPDATE chats SET binding_id = 'bnd_1', kind = 'telegram'")
    read = await talking.admin.get(f"/api/chats/{chat}")
    assert (read["chat"]["binding_id"], read["chat"]["kind"]) == ("bnd_1", "telegram")
    error = await talking.admin.refused(409, "POST", f"/api/chats/{chat}/messages", {"text": "x"})
    assert error["type"] == "conflict_error"


async def test_a_stop_of_the_frontend_ends_its_streams(
    database_url: str, database: Database, owner: ScriptedOwner, follow: Follow
) -> None:
    async with running_frontend(settings_for(database_url), owner.carrier(), database) as api:
        chat = await new_chat(api.admin)
        events = await follow(api.admin, chat)
        async with asyncio.timeout(5):
            await api.frontend.stop()
        with pytest.raises((AssertionError, aiohttp.ClientError)):
            await events.until("never")


async def test_what_was_read_and_what_happened_since_is_what_there_is(
    database_url: str, database: Database, sim: Sim, follow: Follow, tmp_path: Path
) -> None:
    """State at one moment plus the events after it is the state at a later moment, whichever frontend is asked."""
    nats = NatsServer(tmp_path)
    await nats.start()
    settings = settings_for(database_url, model=f"{sim.url}/v1", nats=nats.url)
    try:
        async with (
            running_frontend(settings, ScriptedOwner().carrier(), database) as one,
            running_frontend(settings, ScriptedOwner().carrier(), database) as two,
        ):
            there = two.client(one.admin.key)
            chat = await new_chat(one.admin)
            events: Follower | None = None
            known: list[Any] = []
            for n in range(6):
                speaker, reader = (one.admin, there) if n % 2 else (there, one.admin)
                before = (await reader.get(f"/api/chats/{chat}?after={len(known)}"))["messages"]
                known += before
                events = await follow(reader, chat, len(known))
                await speaker.post(f"/api/chats/{chat}/messages", {"text": f"message {n}"}, status=202)
                while not any(m["content"] == f"You said: message {n}" for m in events.messages):
                    await events.until("message")
                known += events.messages
            assert (await there.get(f"/api/chats/{chat}"))["messages"] == known
            assert [m["seq"] for m in known] == list(range(1, 13))
    finally:
        nats.kill()
