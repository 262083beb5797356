"""Make the example books from their folders: `python examples/make_book.py`.

The covers are drawn here, all else is packed as it stands. Nothing is compressed and no moment is
noted, so a book is the same bytes on every machine.
"""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

EXAMPLES = Path(__file__).resolve().parent
BOOK = EXAMPLES / "the-tide-clock.epub"
SPANISH_BOOK = EXAMPLES / "la-campana-de-niebla.epub"
TITLES = {BOOK: "The Tide Clock", SPANISH_BOOK: "La campana de niebla"}

_SIZE = (800, 1200)
_FINE = 2  # drawn so much larger, and made small for smooth edges
_NIGHT, _DUSK = (16, 28, 54), (58, 92, 130)
_BRASS, _FACE, _BLUE, _DARK = (185, 139, 62), (251, 243, 223), (31, 95, 168), (93, 74, 38)
_CONTAINER = """<?xml version="1.0" encoding="utf-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
  <rootfiles>
    <rootfile full-path="EPUB/package.opf" media-type="application/oebps-package+xml"/>
  </rootfiles>
</container>
"""


def build(book: Path, cover: bytes) -> bytes:
    """A book, with this picture on it."""
    files = {
        "mimetype": b"application/epub+zip",
        "META-INF/container.xml": _CONTAINER.encode(),
        "EPUB/cover.jpg": cover,
    }
    for path in sorted(book.with_suffix("").iterdir()):
        files[f"EPUB/{path.name}"] = path.read_text(encoding="utf-8").encode()
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            archive.writestr(entry, data)
    return made.getvalue()


def draw_cover(book: Path) -> bytes:
    """The moon over the sea; in the English book it is a clock."""
    from PIL import Image, ImageDraw

    width, height = (side * _FINE for side in _SIZE)
    image = Image.new("RGB", (width, height))
    draw = ImageDraw.Draw(image)
    for y in range(height):
        share = y / height
        draw.line((0, y, width, y), _between(_NIGHT, _DUSK, share))
    if book == BOOK:
        _clock(draw, width / 2, height * 0.46, width * 0.29)
    else:
        _moon(draw, width / 2, height * 0.46, width * 0.24)
    for row in range(5):
        _wave(draw, width, height, row)
    _words(draw, width, height, TITLES[book])
    small: Image.Image = image.reduce(_FINE)
    made = io.BytesIO()
    small.save(made, "JPEG", quality=88)
    return made.getvalue()


def _between(
    one: tuple[int, int, int], other: tuple[int, int, int], share: float
) -> tuple[int, int, int]:
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue


def _clock(draw: ImageDraw.ImageDraw, x: float, y: float, radius: float) -> None:
    for share, colour in ((1.0, _BRASS), (0.92, _FACE)):
        size = radius * share
        draw.ellipse((x - size, y - size, x + size, y + size), colour)
    for quarter in range(4):
        angle = quarter * math.pi / 2
        inner, outer = radius * 0.74, radius * 0.84
        draw.line(
            (
                x + inner * math.sin(angle), y - inner * math.cos(angle),
                x + outer * math.sin(angle), y - outer * math.cos(angle),
            ),
            _DARK, round(radius * 0.03),
        )  # fmt: skip
    half, length = radius * 0.035, radius * 0.66
    draw.polygon(((x - half, y), (x, y - length), (x + half, y)), _BLUE)
    size = radius * 0.07
    draw.ellipse((x - size, y - size, x + size, y + size), _DARK)


def _moon(draw: ImageDraw.ImageDraw, x: float, y: float, radius: float) -> None:
    for step in range(4):
        size = radius * (1.3 - 0.1 * step)
        draw.ellipse((x - size, y - size, x + size, y + size), _between(_DUSK, _FACE, step / 3))


def _wave(draw: ImageDraw.ImageDraw, width: int, height: int, row: int) -> None:
    """A row of the sea, the nearer the darker."""
    top = height * (0.72 + 0.055 * row)
    swell = height * (0.008 + 0.002 * row)
    edge = [
        (float(x), top + swell * math.sin(x * 14 / width + row * 1.9))
        for x in range(0, width + 8, 8)
    ]
    colour = _between((64, 124, 160), (12, 34, 62), row / 4)
    draw.polygon([*edge, (float(width), float(height)), (0.0, float(height))], colour)


def _words(draw: ImageDraw.ImageDraw, width: int, height: int, title: str) -> None:
    from PIL import ImageFont

    for text, place, share in (
        (title, 0.115, min(0.105, 1.5 / len(title))),
        ("The anyrig authors", 0.94, 0.045),
    ):
        font = ImageFont.load_default(width * share)
        draw.text((width / 2, height * place), text, _FACE, font, anchor="mm")


if __name__ == "__main__":
    for book in TITLES:
        book.write_bytes(build(book, draw_cover(book)))
