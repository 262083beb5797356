"""Pictures for tests: sheets of paper with black squares, and a reader that counts them.

A sheet of three squares says "three": so a test knows which page was read, and how it lay.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from PIL import Image, ImageDraw

from anyrig.documents.reading import ReadPicture

WORDS = ("", "one square", "two squares", "three squares", "four squares", "five squares")


def sheet(count: int, size: tuple[int, int] = (300, 400), mode: str = "L") -> Image.Image:
    """Paper with squares in its upper part."""
    made = Image.new(mode, size, "white" if mode not in ("I;16", "F") else 65535)
    pen = ImageDraw.Draw(made)
    step = size[0] // 10
    for number in range(count):
        left = step + number * 2 * step - step // 2
        pen.rectangle((left, step, left + step, 2 * step), fill=0)
    return made


def tiff(path: Path, counts: Iterable[int], **options: object) -> Path:
    first, *rest = [sheet(count) for count in counts]
    first.save(path, "TIFF", save_all=True, append_images=rest, **options)
    return path


def bomb_png(width: int, height: int) -> bytes:
    """A small file that says it is a large picture, and is one: all white."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    packer = zlib.compressobj(9)
    row = b"\x00" + b"\xff" * ((width + 7) // 8)
    rows = b"".join(packer.compress(row * 100) for _ in range(min(height, 10_000) // 100))
    packed = rows + packer.flush()
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
    )


def squares(data: bytes) -> int:
    """How many squares stand in the upper part of a picture; -1 if there are some elsewhere."""
    image = Image.open(io.BytesIO(data)).convert("L")
    width, height = image.size
    step = width // 10
    row = image.crop((0, int(1.5 * step), width, int(1.5 * step) + 1))
    dark = [value < 128 for value in row.tobytes()]
    below = image.crop((0, height // 2, width, height)).getextrema()[0]
    if isinstance(below, int | float) and below < 128:
        return -1
    return sum(now and not before for before, now in zip([False, *dark], dark, strict=False))


class Counts:
    """Reads pictures by counting squares, and remembers how many it was given."""

    def __init__(self, confidence: float = 1.0) -> None:
        self.num_read = 0
        self._confidence = confidence

    def read(self, pictures: Iterable[bytes]) -> Iterator[ReadPicture]:
        for data in pictures:
            self.num_read += 1
            yield ReadPicture(WORDS[max(squares(data), 0)], confidence=self._confidence)
