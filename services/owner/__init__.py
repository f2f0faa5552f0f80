"""The one process that hosts add-ons.

- `app`: composition root. `supervisor`, `gallery`: add-on processes and their packages.
- `calls`: what frontends may ask. `authority`: what is checked again before an act.
- `credentials`: opens sealed tokens. `deliveries`, `pacing`: sends what was planned. `operations`: tool writes.
- `lease`: one active owner of an add-on root.
"""
