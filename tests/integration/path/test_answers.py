"""From a message of a person to what the chat shows: modes, markup, parts, typing."""

from itertools import pairwise
from typing import Any

import pytest

from tests.support.rig import Bot, Rig
from tests.support.until import until_answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: a group of the platform has a negative ID
GROUP = -4001
BUSY = {"text": "Working…"}


@pytest.mark.req("ANS-12")
async def test_the_answer_replaces_the_working_message(path: Rig) -> None:
    bot = await path.bot()
    await path.says(bot, 5001, "hi there")
    answer = await path.answer(bot, 5001, "You said: hi there")
    (sent,) = await path.calls(bot, "sendMessage")
    edits = await path.calls(bot, "editMessageText")
    assert sent["params"]["text"] == "Working…"
    assert edits[-1]["params"]["message_id"] == answer["id"]
    assert await path.visible(bot, 5001) == ["You said: hi there"]


@pytest.mark.req("ANS-11")
async def test_each_started_tool_is_added_to_the_working_message(path: Rig) -> None:
    bot = await path.bot(addons=["probe"])
    await path.script(
        "look twice",
        {"tool": "probe_read", "arguments": {"value": "a"}},
        {"tool": "current_time", "arguments": {}},
        {"text": "Seen "},
        {"text": "twice"},
        delay_ms=300,
    )
    await path.says(bot, 5001, "look twice")
    await path.answer(bot, 5001, "Seen twice")
    shown = [call["params"]["text"] for call in await path.calls(bot, "editMessageText")]
    assert shown == [
        "Working…\n• probe_read",
        "Working…\n• probe_read\n• current_time",
        "Seen twice",
    ]


@pytest.mark.req("ANS-32")
async def test_a_streamed_answer_grows_as_plain_text_in_one_message(path: Rig) -> None:
    bot = await path.bot(reply_mode="stream")
    await path.script("grow", *({"text": f"**word{n}** "} for n in range(6)), delay_ms=250)
    await path.says(bot, 5001, "grow")
    answer = await path.answer(bot, 5001, "word0 word1 word2 word3 word4 word5")
    *previews, final = await path.calls(bot, "editMessageText")
    assert previews
    assert all("parse_mode" not in call["params"] for call in previews)
    assert all(call["params"]["text"].endswith("▉") for call in previews)
    assert final["params"]["parse_mode"] == "MarkdownV2"
    assert answer["text"].count("▉") == 0


@pytest.mark.req("ANS-21")
async def test_with_replies_off_there_is_typing_and_then_one_new_message(path: Rig) -> None:
    bot = await path.bot(reply_mode="off")
    await path.says(bot, 5001, "be quiet")
    await path.answer(bot, 5001, "You said: be quiet")
    assert len(await path.calls(bot, "sendMessage")) == 1
    assert not await path.calls(bot, "editMessageText")
    assert await path.calls(bot, "sendChatAction")


@pytest.mark.req("ANS-07")
async def test_typing_is_renewed_every_four_seconds_until_the_answer(path: Rig) -> None:
    bot = await path.bot()
    await path.script("take your time", {"text": "Done"}, delay_ms=9000)
    await path.says(bot, 5001, "take your time")
    await path.answer(bot, 5001, "Done", within=30)
    typing = [call["at"] for call in await path.calls(bot, "sendChatAction")]
    gaps = [later - earlier for earlier, later in pairwise(typing)]
    assert len(typing) == 3
    assert all(3.9 < gap < 4.6 for gap in gaps)
    everything = await path.sim.get("telegram/calls", since=0)
    late = await path.sim.get(
        "telegram/wait", since=everything["next"], method="sendChatAction", chat=5001, timeout=4.6
    )
    assert not late["found"], "none after the answer"


@pytest.mark.req("ANS-06")
async def test_typing_is_shown_before_the_first_model_request(path: Rig) -> None:
    bot = await path.bot()
    await path.says(bot, 5001, "type first")
    await path.answer(bot, 5001, "You said: type first")
    typing = await path.calls(bot, "sendChatAction")
    (asked,) = await path.requests("type first")
    assert typing[0]["at"] < asked["at"]


@pytest.mark.req("ANS-23")
async def test_markdown_becomes_the_markup_of_the_platform(path: Rig) -> None:
    bot = await path.bot()
    text = "**bold** *it* [label](https://ex.test/a_b) `code_x` a.b!\n\n```python\nx = 1\n```"
    await path.script("mark it up", {"text": text})
    await path.says(bot, 5001, "mark it up")
    answer = await path.answer(bot, 5001, "bold")
    final = (await path.calls(bot, "editMessageText"))[-1]["params"]
    assert final["parse_mode"] == "MarkdownV2"
    assert "*bold*" in final["text"]
    assert "_it_" in final["text"]
    assert "[label](https://ex.test/a_b)" in final["text"]
    assert "`code_x`" in final["text"]
    assert "a\\.b\\!" in final["text"]
    assert "```python\nx = 1```" in final["text"]
    assert answer["text"].startswith("bold it label code_x a.b!")


@pytest.mark.req("ANS-28")
@pytest.mark.case("TG-10")
async def test_addresses_keep_every_underscore_and_show_no_card(path: Rig) -> None:
    bot = await path.bot(reply_mode="off")
    text = "See https://ex.test/a_b/c and https://ex.test/d_e/f"
    await path.script("two addresses", {"text": text})
    await path.says(bot, 5001, "two addresses")
    answer = await path.answer(bot, 5001, "See")
    assert answer["text"] == text
    for call in await path.calls(bot, "sendMessage"):
        assert call["params"]["link_preview_options"] == {"is_disabled": True}


@pytest.mark.req("ANS-25")
@pytest.mark.req("ANS-26")
@pytest.mark.case("TG-09")
async def test_refused_markup_goes_again_as_plain_text_without_backslashes(path: Rig) -> None:
    bot = await path.bot(reply_mode="off")
    await path.script("room 2", {"text": "Ok! Room 2 - off. See [the plan](https://ex.test/p)"})
    await path.fault(bot, "sendMessage", **_unparsable())
    await path.says(bot, 5001, "room 2")
    answer = await path.answer(bot, 5001, "Ok!")
    refused, again = await path.calls(bot, "sendMessage")
    assert refused["params"]["parse_mode"] == "MarkdownV2"
    assert "parse_mode" not in again["params"]
    assert answer["text"] == "Ok! Room 2 - off. See the plan (https://ex.test/p)"


@pytest.mark.req("ANS-27")
async def test_only_the_part_that_was_refused_goes_plain(path: Rig) -> None:
    bot = await path.bot(reply_mode="off")
    await path.script("two parts", {"text": "**one** " + "a" * 4000 + "\n\n**two** " + "b" * 3000})
    await path.fault(bot, "sendMessage", **_unparsable())
    await path.says(bot, 5001, "two parts")
    await path.answer(bot, 5001, "bbb")
    _refused, first, second = await path.calls(bot, "sendMessage")
    assert "parse_mode" not in first["params"]
    assert second["params"]["parse_mode"] == "MarkdownV2"


@pytest.mark.req("ANS-29")
@pytest.mark.req("ANS-30")
async def test_a_long_answer_takes_over_the_working_message_and_goes_on_below_it(path: Rig) -> None:
    bot = await path.bot()
    words = [f"word{n:04d}" for n in range(1200)]
    await path.script("many words", {"text": " ".join(words)})
    await path.says(bot, 5001, "many words")
    await path.answer(bot, 5001, "word1199")
    shown = await path.visible(bot, 5001)
    (working, *rest) = await path.calls(bot, "sendMessage")
    assert working["params"]["text"] == "Working…"
    assert len(rest) == len(shown) - 1
    assert all(len(text.encode("utf-16-le")) // 2 <= 4096 for text in shown)
    assert " ".join(shown).split() == words


@pytest.mark.req("ANS-31")
async def test_a_code_block_is_closed_and_opened_again_with_its_language(path: Rig) -> None:
    bot = await path.bot(reply_mode="off")
    lines = [f"value_{n:04d} = {n}" for n in range(350)]
    await path.script("much code", {"text": "```python\n" + "\n".join(lines) + "\n```"})
    await path.says(bot, 5001, "much code")
    await path.answer(bot, 5001, "value_0349")
    sent = [call["params"]["text"] for call in await path.calls(bot, "sendMessage")]
    assert len(sent) == 2
    assert all(text.startswith("```python\n") and text.endswith("```") for text in sent)
    assert "\n".join(await path.visible(bot, 5001)).split("\n") == lines


@pytest.mark.case("TG-12")
async def test_nothing_of_four_thousand_full_stops_is_lost(path: Rig) -> None:
    bot = await path.bot()
    await path.script("dots", {"text": "." * 4000})
    await path.says(bot, 5001, "dots")
    await path.answer(bot, 5001, "....")
    await path.eventually(
        "SELECT count(*) >= 2 AND bool_and(state = 'sent') FROM deliveries WHERE binding_id = $1", bot.binding
    )
    sent = [call["params"]["text"] for call in await path.calls(bot, "editMessageText", "sendMessage")]
    assert all(len(text.encode("utf-16-le")) // 2 <= 4096 for text in sent), "cut after formatting"
    assert sum(text.count("\\.") for text in sent) == 4000
    assert "".join(await path.visible(bot, 5001)) == "." * 4000


@pytest.mark.case("TG-08")
async def test_a_final_edit_that_changes_nothing_is_a_success(path: Rig) -> None:
    bot = await path.bot(reply_mode="progress")
    await path.script("say it again", {"text": "Working…"})
    await path.says(bot, 5001, "say it again")
    await path.eventually(
        "SELECT bool_and(state = 'sent') AND count(*) = 2 FROM deliveries WHERE binding_id = $1", bot.binding
    )
    (edit,) = await path.calls(bot, "editMessageText")
    assert edit["status"] == 400
    assert await path.visible(bot, 5001) == ["Working…"]


async def test_an_answer_of_nothing_visible_gets_a_sentence(path: Rig) -> None:
    bot = await path.bot()
    await path.script("say nothing", {"text": "&nbsp;"})
    await path.says(bot, 5001, "say nothing")
    await path.eventually("SELECT state = 'done' FROM turns WHERE binding_id = $1", bot.binding)
    await path.eventually(
        "SELECT count(*) = 2 AND bool_and(state = 'sent') FROM deliveries WHERE binding_id = $1", bot.binding
    )
    assert await path.visible(bot, 5001) != ["Working…"]


@pytest.mark.case("TG-07")
async def test_a_flood_wait_stops_edits_and_the_final_text_is_whole(path: Rig) -> None:
    bot = await path.bot(addons=["probe"])
    tools = [{"tool": "probe_read", "arguments": {"value": str(n)}} for n in range(8)]
    answer = " ".join(f"light{n:03d}" for n in range(280))
    await path.script("lights", *tools, {"text": answer}, delay_ms=450)
    await path.says(bot, GROUP, f"@{bot.handle} lights")
    limited: dict[str, Any] = {
        "status": 429,
        "body": {
            "ok": False,
            "error_code": 429,
            "description": "Too Many Requests: retry after 30",
            "parameters": {"retry_after": 30},
        },
    }
    await _edits(path, bot, 3)
    await path.fault(bot, "editMessageText", **limited)
    await path.answer(bot, GROUP, "light279", within=60)
    edits = await path.calls(bot, "editMessageText")
    assert [call["status"] for call in edits] == [200, 200, 200, 429, 200]
    assert edits[-1]["at"] - edits[-2]["at"] >= 30
    after = [call for call in await path.calls(bot) if call["at"] > edits[-2]["at"]]
    assert [call["method"] for call in after if call.get("chat") == GROUP] == ["editMessageText"]
    assert await path.visible(bot, GROUP) == [answer]


async def _edits(path: Rig, bot: Bot, count: int) -> None:
    """Wait until so many edits have been made."""

    async def made() -> bool:
        return len(await path.calls(bot, "editMessageText")) >= count

    await until_answer(made)


def _unparsable() -> dict[str, Any]:
    body = {"ok": False, "error_code": 400, "description": "Bad Request: can't parse entities: byte 3"}
    return {"status": 400, "body": body}
