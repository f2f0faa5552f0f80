"""The demo page in a real browser."""

import os
import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Page, async_playwright, expect

from tests.support.simulation import TOKEN, Sim, running

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip
pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(CHROMIUM is None and not os.environ.get("CI"), reason="needs Chromium"),
]


@pytest.fixture
async def sim() -> AsyncIterator[Sim]:
    async with running(validate=False, demo_bot=TOKEN) as started:
        yield started


@pytest.fixture
async def page(sim: Sim) -> AsyncIterator[Page]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        try:
            opened = await browser.new_page()
            await opened.goto(sim.url)
            yield opened
        finally:
            await browser.close()


async def test_a_person_chats_and_sees_the_bot_work(sim: Sim, page: Page) -> None:
    messages, status = page.locator(".message .text"), page.locator("[data-status]")
    await page.get_by_label("Message", exact=True).fill("lights <b>off</b>")
    await page.keyboard.press("Enter")
    await expect(messages).to_have_text(["lights <b>off</b>"])
    await sim.result("sendChatAction", chat_id=5001, action="typing")
    await expect(status).to_have_text("typing…")
    await sim.result("sendMessageDraft", chat_id=5001, draft_id=1, text="Wor")
    await expect(messages).to_have_text(["lights <b>off</b>", "Wor"])
    sent = await sim.result("sendMessage", chat_id=5001, text="Working…")
    await expect(messages).to_have_text(["lights <b>off</b>", "Working…"])
    await expect(status).to_have_text("bot")
    where = {"chat_id": 5001, "message_id": sent["message_id"]}
    text = "*Done* [here](https://ex.test/a)"
    await sim.tg("editMessageText", **where, text=text, parse_mode="MarkdownV2")
    await expect(messages.nth(1).locator("strong")).to_have_text("Done")
    await expect(page.get_by_role("link", name="here")).to_have_attribute("href", "https://ex.test/a")
    await sim.tg("deleteMessage", **where)
    await expect(messages).to_have_count(1)


async def test_each_person_has_a_chat_of_their_own(sim: Sim, page: Page) -> None:
    await sim.says("from Ada")
    await expect(page.locator(".message")).to_have_count(1)
    await page.get_by_label("You are").select_option("Bob")
    await expect(page.locator(".message")).to_have_count(0)
    await expect(page.get_by_role("heading", name="Say hello")).to_be_visible()
    await page.get_by_label("Message", exact=True).fill("from Bob")
    await page.get_by_role("button", name="Send").click()
    await expect(page.locator(".message .text")).to_have_text(["from Bob"])
    (update,) = await sim.result("getUpdates", offset=-1)
    assert update["message"]["from"]["first_name"] == "Bob"
