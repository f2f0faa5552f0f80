"""Sizes of pictures, read from their first bytes: enough to apply the platform's rules for photos."""

import struct

_JPEG_FRAMES = frozenset({0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF})


def picture_size(content: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, GIF or JPEG; None for anything else."""
    if content.startswith(b"\x89PNG\r\n\x1a\n") and len(content) >= 24:
        width, height = struct.unpack(">II", content[16:24])
        return _sensible(width, height)
    if content[:6] in {b"GIF87a", b"GIF89a"} and len(content) >= 10:
        width, height = struct.unpack("<HH", content[6:10])
        return _sensible(width, height)
    return _jpeg_size(content) if content.startswith(b"\xff\xd8") else None


def _jpeg_size(content: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(content) and content[at] == 0xFF:
        marker, length = content[at + 1], int.from_bytes(content[at + 2 : at + 4], "big")
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", content[at + 5 : at + 9])
            return _sensible(width, height)
        at += 2 + length
    return None


def _sensible(width: int, height: int) -> tuple[int, int] | None:
    return (width, height) if width > 0 and height > 0 else None
