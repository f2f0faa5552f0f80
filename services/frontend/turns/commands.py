"""The command for a new chat: what is one, who may give it where, and what is said to it. Pure.

`/new`, or `!new` where the platform keeps a leading slash for itself; both are taken everywhere. The whole message is
the command, so that a sentence which begins with it reaches the agent. Source: connectors, "Start a new chat with /new".
"""

from shared.domain.records import Binding
from shared.i18n import say
from shared.sdk.ops import Inbound

_NEW_CHAT = frozenset({"/new", "!new"})


def new_chat(message: Inbound) -> str:
    """The command as it was written, in small letters; empty for an ordinary message, as one with a file always is."""
    said = message.text.strip().lower()
    return said if said in _NEW_CHAT and not (message.files or message.unsupported) else ""


def objection(binding: Binding, message: Inbound, *, paired: bool) -> str:
    """Why the command does nothing here, in words; empty when it may be carried out (NEW-14 to NEW-19).

    A chat that several people share is left only at the word of somebody whom the owner has paired.
    """
    if binding.conversation == "thread" and not message.thread:
        return say("new_chat_always")
    return say("new_chat_paired") if _shared(binding, message) and not paired else ""


def confirmation(binding: Binding, message: Inbound) -> str:
    return say("new_chat_shared" if _shared(binding, message) else "new_chat")


def later(command: str) -> str:
    """That an answer is under way, and what to send when it is there (NEW-21)."""
    return say("new_chat_later", command=command)


def _shared(binding: Binding, message: Inbound) -> bool:
    """Whether the chat of this place is one for several people."""
    return not message.direct and (bool(message.thread) or binding.conversation == "chat")
