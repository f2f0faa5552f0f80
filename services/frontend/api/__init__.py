"""The HTTP API: one module a resource.

- `routes`: how a route is declared and becomes a handler; `table`: all of them; `openapi`: their description.
- `call`: a request as a handler sees it; `identity`: who calls; `errors` and `middleware`: what goes wrong.
- `sign_in`, `users`, `agents`, `models`, `chats`, `events`, `kinds`, `bindings`, `senders`, `addons`, `cluster`,
  `notifications`: the resources.
"""
