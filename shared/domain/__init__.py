"""Plain types that every service speaks: no I/O, no third-party imports.

- `errors`: the closed set of failures that travels from an add-on to the API.
- `ids`: how identifiers are made.
- `records`: bindings, chats, messages, turns, deliveries as they leave the store.
"""
