"""For add-on authors: typed ops, the errors, the process runtime and a test harness.

- `ops`: what travels between host and add-on.
- `manifest`: the manifest and its checks.
- `runtime`: runs an add-on as a process (sockets, credential, health, parent watch).
- `harness`: runs an add-on inside a test, without an owner.
"""
