"""The page on which engines are tried: drawn here, so that what stands on it is known."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from anyrig.documents.ocr.choose import Chosen, Trial

if TYPE_CHECKING:
    from PIL import Image

    from anyrig.documents.ocr.run import Pages

TEXT = (
    "The harbour master kept two books: one for ships that had come in, and one for ships that",
    "had not. In the first he wrote the date, the hour and the name; in the second, only the",
    "name. \"A ship is late,\" he used to say, \"until somebody's mother stops asking.\" By 1894",
    "the second book held 61 names, and 38 of them were his own. Was that many? Nobody knew.",
    "Rain fell on the quay (it was June), the gulls stood about like clerks, and the clock over",
    "the customs house showed a quarter past nine, as it had done for eleven years. He put on his",
    "coat, took the lamp from its hook and went down the 112 steps to the water; there was a sail",
    "at last, grey and small, far out beyond the bar. He waited. He had learnt to wait.",
)  # fmt: skip


def pages() -> list[bytes]:
    """The sample clean at 200 dpi, and as a small and dirty scan."""
    return [_png(_drawn(30)), _png(_dirty(_drawn(20)))]


def _drawn(size: int) -> Image.Image:
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(size=size)
    step = round(size * 1.5)
    width = 4 * size + round(max(font.getlength(line) for line in TEXT))
    image = Image.new("L", (width, 4 * size + step * len(TEXT)), 255)
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(TEXT):
        draw.text((2 * size, 2 * size + number * step), line, font=font, fill=0)
    return image


def _dirty(image: Image.Image) -> Image.Image:
    import numpy as np
    from PIL import Image as Images

    dice = np.random.default_rng(7)
    values = np.asarray(image, np.float32) + dice.normal(0, 18, (image.height, image.width))
    specks = dice.random(values.shape)
    values[specks < 0.004], values[specks > 0.996] = 0, 255
    return Images.fromarray(np.clip(values, 0, 255).astype(np.uint8))


def _png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def trial(opened: Callable[[Chosen], Pages]) -> Callable[[Chosen], Trial]:
    """Tries engines as they would be used: through workers, where they would run."""

    def tried(chosen: Chosen) -> Trial:
        with opened(chosen) as reader:
            found = [one.page for one in reader.pages(pages())]
        read = [page for page in found if page is not None]
        if len(read) < len(found):
            return Trial(0.0, 1.0)
        wrong = max(error("\n".join(TEXT), page.text) for page in read)
        return Trial(sum(page.cpu_s for page in read) / len(read), wrong)

    return tried


def error(wanted: str, found: str) -> float:
    """Characters to insert, drop or change, as a share of those wanted; white counts as one."""
    one, other = " ".join(wanted.split()), " ".join(found.split())
    return distance(one, other) / max(1, len(one))


def distance(one: str, other: str) -> int:
    """How many characters must change, by Myers' bits: a column of the table is one number."""
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for number, char in enumerate(one):
        places[char] = places.get(char, 0) | 1 << number
    full, last = (1 << len(one)) - 1, 1 << (len(one) - 1)
    rises, falls, count = full, 0, len(one)
    for char in other:
        same = places.get(char, 0)
        steps = same | falls
        across = (((same & rises) + rises) ^ rises) | same
        up, down = falls | (~(across | rises) & full), rises & across
        count += bool(up & last) - bool(down & last)
        up, down = (up << 1 | 1) & full, down << 1 & full
        rises, falls = down | (~(steps | up) & full), up & steps
    return count
