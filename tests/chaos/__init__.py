"""Chaos: a seeded workload on a real cluster while its parts die, and a checker that decides whether it was right.

- `rack`: the cluster, with a relay on every line between its processes; `gate` hears of the points they reach.
- `workload`: what people do in a seed; `faults`: what happens to the cluster meanwhile.
- `evidence`: what the outside has seen and what is stored at the end; `checker` applies the
  `rules` to it, `history` holds the lines that show a broken one.
- `seed` plays one seed; `python -m tests.chaos` plays many and reports; `plants` are bugs that the checker must catch.
"""
