"""For add-on authors and for the host that runs add-ons.

- `addon`: what an add-on declares; `errors`: the failures that its ops raise; `host`: what it may ask of the host.
- `runtime`: the process of an add-on (sockets, credential, parent watch); `server`: the protocol's answering end.
- `client`: the protocol's calling end, used by the host.
- `harness`: runs an add-on inside a test, without an owner.
- `ops`, `manifest`: what travels, and what a manifest may say; `wire`, `unixhttp`: how it travels.
"""
