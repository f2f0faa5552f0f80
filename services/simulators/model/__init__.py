"""A stand-in of an OpenAI-compatible model server.

- `api`: chat completions and models; `media`: speech, transcriptions, pictures
- `script`: what the model says; `replies`: how that looks on the wire
- `errors`: error answers; `checks`: the contract; `control`: the control routes
"""
