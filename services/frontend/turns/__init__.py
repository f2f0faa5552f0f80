"""A message becomes an answer.

- `admission`: decides on stored messages of a lane and starts turns. `lanes`: many lanes at a time.
- `verdicts`, `commands`, `places`: the decisions themselves, from plain facts.
- `context`: the transcript as a model request. `model`: the OpenAI-compatible client.
- `runner`: one turn, from claim to planned answer. `tools`: what an agent may call.
- `delivery`: an answer as planned parts. `progress`: typing and previews.
- `pool`: which turns this frontend runs, takeover of orphans, sweeps, and the hand-over at a stop.
"""
