"""Telegram bots: the host polls, answers are edited in place, Markdown goes out as MarkdownV2."""

from pathlib import Path

from services.addons.telegram import connector
from shared.sdk.addon import Addon

ADDON = Addon(
    manifest=(Path(__file__).parent / "manifest.json").read_bytes(),
    open=connector.open_telegram,
    ops={
        "poll": connector.poll,
        "me": connector.me,
        "send": connector.send,
        "edit": connector.edit,
        "delete": connector.delete,
        "typing": connector.typing,
        "draft": connector.draft,
    },
)
