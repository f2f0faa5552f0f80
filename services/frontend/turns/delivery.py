"""An answer as planned parts: the first takes over the working message, the others follow (ANS-30)."""

import asyncio
from typing import Any

from shared.domain.records import Part, Turn
from shared.i18n import say
from shared.sdk.manifest import TextDialect
from shared.store.requests import Destination
from shared.text.split import render

#: characters from which an answer is rendered beside the event loop: 200,000 take seconds, in which leases run out
LONG = 10_000


async def planned_answer(text: str, **where: Any) -> list[Part]:
    """`answer_parts`, without holding up everything else while a long answer is rendered."""
    if len(text) < LONG:
        return answer_parts(text, **where)
    return await asyncio.to_thread(answer_parts, text, **where)


def answer_parts(
    text: str, *, turn: Turn, place: Destination, dialect: TextDialect, reply_to: str
) -> list[Part]:
    """The parts of an answer, in order. `text` is Markdown; every part also has its plain form."""
    rendered = render(text, dialect.markup, dialect.limit, dialect.unit)
    if not rendered:
        # Nothing of it can be seen; the working message must not stay for ever.
        rendered = render(say("model_empty"), dialect.markup, dialect.limit, dialect.unit)
    parts = []
    for n, piece in enumerate(rendered):
        takes_over = n == 0 and place.working_id is not None
        parts.append(
            Part(
                "answer",
                "edit" if takes_over else "send",
                {"text": piece.text, "markup": piece.markup, "plain": piece.plain},
                thread=place.thread,
                reply_to=reply_to if n == 0 and not place.direct else "",
                target_id=place.working_id if takes_over else None,
                chat_id=turn.chat_id,
                turn_id=turn.id,
                epoch=turn.epoch,
                part=n,
            )
        )
    return parts
