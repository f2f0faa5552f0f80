"""A stand-in of the Telegram Bot API.

- `api`: the HTTP side: tokens, the four request forms, dispatch, faults, the call log
- `methods`: what each method does; `updates`: the queue behind getUpdates; `media`: files
- `bots`, `chats`: what exists; `limits`: the broadcast limits
- `formatting`, `markdown`, `entities`: texts as the platform reads them
- `errors`: the error answers; `inbound`: people's messages; `control`: the control routes
"""
