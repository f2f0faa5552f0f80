"""Text on its way to and from platforms. Import the module you need; this package imports nothing by itself.

- `markdown`: Markdown to styled pieces, the same for every platform.
- `markdown_telegram`, `plain`: pieces to the text of one message.
- `split`: `render`, the public entry: Markdown to parts that fit.
- `units`: lengths as platforms count them, and where a text may be cut.
- `redaction`: takes secrets out of texts.
"""
