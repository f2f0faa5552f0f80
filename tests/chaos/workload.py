"""What people do in one seed: who writes what to which bot and when, and what the model makes of it."""

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from shared.sdk.ops import Inbound, Person
from tests.chaos.rack import Rack

#: what the host should do with a message: answer it, refuse it without a word or with a notice, or obey it itself
Expected = Literal["answered", "refused", "noticed", "obeyed"]
MODES = ("progress", "stream", "off")
#: seconds over which the messages of a seed are spread
SPREAD = 3.0
#: the person whom the allowlists name, and one whom they do not
GUEST, STRANGER = 77_001, 99_009
TOO_LONG = 8_001
#: characters of an answer that has several parts
LONG = 9_000
#: what people write; a burst is three messages at once
KINDS = ("echo", "slow", "stream", "tool", "tool", "long", "burst", "burst", "stranger", "too_long")
COMMAND = "/new"
#: people's chats of one seed
SEED_CHATS = 16


_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Bot:
    """A binding. One of `kind` probe-push hands its messages to the host, where Telegram's are polled."""

    binding: str
    token: str
    mode: str
    kind: str = "telegram"


@dataclass(frozen=True, slots=True)
class Step:
    """One message of a person. `word` is in its text and nowhere else; `script` is what the model answers to it."""

    at: float
    bot: Bot
    chat: int
    word: str
    text: str
    sender: int
    expected: Expected = "answered"
    script: list[dict[str, Any]] = field(default_factory=list)
    delay_ms: float = 0.0


async def make_bots(rack: Rack) -> list[Bot]:
    """A polled bot for each reply mode and one that pushes, all of one agent that may use the probe's tools."""
    agent = await rack.api(
        "POST", "/api/agents", {"name": "Chaos", "model": "sim-large", "addons": ["probe"]}
    )
    made = []
    kinds = [*(("telegram", mode) for mode in MODES), ("probe-push", "progress")]
    for number, (kind, mode) in enumerate(kinds):
        token = f"{770_000 + number}:AAchaosAAchaosAAchaosAAchaosAAchaosA"
        body = {
            "kind": kind,
            "name": f"Chaos {kind} {mode}",
            "token": token,
            "enabled": True,
            "reply_mode": mode,
        }
        body |= {"agent_id": agent["id"], "allow": [str(GUEST)]}
        binding = await rack.api("POST", "/api/chats/connectors", body)
        made.append(Bot(binding["id"], token, mode, kind))
    return made


def chats_of(seed: int) -> list[int]:
    """The chats of a seed; no other seed has them."""
    return [1_000_000 + seed * 100 + n for n in range(SEED_CHATS)]


def plan(seed: int, bots: list[Bot]) -> list[Step]:
    """The messages of a seed in the order of their time."""
    rng = Random(f"workload {seed}")
    steps: list[Step] = []
    first, *others = chats_of(seed)[: rng.randint(6, 10)]
    # One turn is in flight from the beginning, so that a fault finds one.
    steps.append(_step(rng, rng.choice(bots), first, f"w{seed}first.", "slow", 0.0))
    for n, chat in enumerate(others):
        steps += _chat(rng, bots[n % len(bots)], chat, f"w{seed}c{n}")
    return sorted(steps, key=lambda step: step.at)


def _chat(rng: Random, bot: Bot, chat: int, name: str) -> Iterator[Step]:
    at = rng.uniform(0, SPREAD / 2)
    count = rng.randint(1, 4)
    for n in range(count):
        kind = rng.choice(KINDS)
        for part in range(3 if kind == "burst" else 1):
            yield _step(rng, bot, chat, f"{name}m{n}p{part}.", kind, at)
        at += rng.uniform(0, SPREAD / count)
    if rng.random() < 0.3:
        yield Step(at - 0.1, bot, chat, COMMAND, COMMAND, GUEST, "obeyed")


def _step(rng: Random, bot: Bot, chat: int, word: str, kind: str, at: float) -> Step:
    delay = rng.uniform(50, 400)
    if kind == "stranger":
        return Step(at, bot, chat, word, f"let me in {word}", STRANGER, "refused")
    if kind == "too_long":
        return Step(at, bot, chat, word, word + "x" * TOO_LONG, GUEST, "noticed")
    script: list[dict[str, Any]] = []
    if kind == "slow":
        script = [{"text": f"slowly {word}"}]
        delay = rng.uniform(800, 2000)
    if kind == "stream":
        script = [{"text": f"{piece} {word} "} for piece in ("one", "two", "three", "four")] + [
            {"text": "end"}
        ]
    if kind == "tool":
        script = [{"tool": "probe_write", "arguments": {"value": word}}, {"text": f"written {word}"}]
    if kind == "long":
        script = [{"text": " ".join([word] * (LONG // (len(word) + 1)))}]
    return Step(at, bot, chat, word, f"{kind} {word}", GUEST, script=script, delay_ms=delay)


async def say(rack: Rack, step: Step) -> None:
    """The person writes; the model knows beforehand what it will say."""
    sim = rack.sim
    if step.script:
        await sim.script(*step.script, match={"contains": step.word}, delay_ms=step.delay_ms)
    if step.bot.kind == "probe-push":
        rack.arrive(_pushed(step), time.time())
        return
    person = {"id": step.sender, "first_name": f"Person {step.sender}"}
    event = {"bot": step.bot.token, "chat": step.chat, "from": person, "text": step.text}
    await sim.post("telegram/events", event)


def _pushed(step: Step) -> tuple[str, Inbound]:
    number = f"{next(_numbers):08}"
    sender = Person(str(step.sender), f"Person {step.sender}")
    return step.bot.binding, Inbound(
        str(step.chat), sender, id=number, text=step.text, direct=True, addressed=True
    )
