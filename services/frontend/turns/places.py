"""Which place of conversation a message belongs to. Pure."""

from shared.domain.records import Binding
from shared.sdk.ops import Inbound
from shared.store.places import Place


def place_of(binding: Binding, message: Inbound) -> Place | None:
    """Which chat a message belongs to by the binding's mode; None when only a reply can lead to one.

    A chat belongs to one place of conversation, so what a person says in private never shows in a group.
    """
    if message.thread:
        return Place(f"t:{message.chat}:{message.thread}")
    if binding.conversation == "chat":
        return Place(f"c:{message.chat}")
    if binding.conversation == "thread":
        return None
    window = binding.window_minutes if binding.conversation == "window" else 0
    return Place(f"s:{message.chat}:{message.sender.id}", window)
