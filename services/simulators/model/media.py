"""Small true answers in the media forms: a tone, a picture, and what can be said about a sound."""

import base64
import math
import struct
import zlib

RATE = 8000


def tone(text: str) -> bytes:
    """A WAV of a steady tone, a hundredth of a second for each character, at most three seconds."""
    frames = min(len(text), 300) * RATE // 100
    samples = (int(8000 * math.sin(2 * math.pi * 440 * at / RATE)) for at in range(frames))
    data = b"".join(struct.pack("<h", sample) for sample in samples)
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, RATE, RATE * 2, 2, 16)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", len(data)) + data
    return struct.pack("<4sI", b"RIFF", len(body)) + body


def picture(prompt: str, side: int = 16) -> bytes:
    """A PNG of one colour that follows from the prompt."""
    colour = struct.pack(">I", zlib.crc32(prompt.encode("utf-8", "surrogatepass")))[:3]
    rows = (b"\0" + colour * side) * side
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def picture_text(prompt: str) -> str:
    return base64.b64encode(picture(prompt)).decode()


def heard(name: str, size: int) -> str:
    """What a transcription says: the simulator has no ears."""
    return f"A sound of {size} bytes, named {name}."


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
