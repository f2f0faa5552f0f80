"""One folder an add-on, each with the same files; each runs as its own process.

- `manifest.json`: what it declares to the host.
- `__init__`: `ADDON`, the wiring; `__main__`: its process.
- `client`: speaks the platform; `connector` or `tools`: translates between host and platform.
"""
