"""A cover that players show: a JPEG or PNG of a fair size, whatever the book brought.

A cover is never worth a book: one that cannot be used is left out, and the reason is told.
"""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, NamedTuple

from anyrig.install import format_install
from anyrig.text.document import Picture
from anyrig.text.formats.picture import MOST_DECODE_BYTES, decode_bytes, pillow_formats

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST = 1600
"""Pixels of the longer side; larger ones are scaled down."""
_MOST_BYTES = 4_000_000
_MOST_PIXELS = 40_000_000  # some 160 MB while they are scaled
_KEPT = {"JPEG": "image/jpeg", "PNG": "image/png"}
_MAGIC = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}


class Cover(NamedTuple):
    """What became of a cover."""

    picture: Picture | None
    warning: str = ""


def prepare(picture: Picture | None) -> Cover:
    """The picture as it is, if it is a sound JPEG or PNG; else made into one, or left out."""
    if picture is None:
        return Cover(None)
    try:
        from PIL import Image
    except ImportError:
        return _unread(picture)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # we have our own bound
            with Image.open(io.BytesIO(picture.data), formats=pillow_formats()) as image:
                return _prepared(picture, image)
    except MemoryError:
        return Cover(None, "the cover is left out: it is too large")
    except Exception as error:  # noqa: BLE001  # decoders raise anything on broken files
        return Cover(None, f"the cover is left out: it cannot be read ({_reason(error)})")


def _prepared(picture: Picture, image: Image) -> Cover:
    width, height = image.size
    kind = image.format or ""
    if min(width, height) < 1 or width * height > _MOST_PIXELS:
        return Cover(None, f"the cover is left out: it has {width:,} by {height:,} pixels")
    if decode_bytes(image) > MOST_DECODE_BYTES:
        return Cover(
            None,
            f"the cover is left out: it takes too much memory ({kind} of {width:,} by {height:,}"
            " pixels)",
        )
    small = max(width, height) <= LARGEST and len(picture.data) <= _MOST_BYTES
    upright = image.getexif().get(0x0112, 1) in (0, 1)
    plain = image.mode in ("RGB", "L", "RGBA", "LA", "P", "1")
    if not small:
        image.draft("RGB", (LARGEST, LARGEST))  # a JPEG is read at a fraction of its size
    image.load()
    if kind in _KEPT and small and upright and plain:
        return Cover(Picture(picture.data, _KEPT[kind]))
    return Cover(Picture(_jpeg(image), "image/jpeg"))


def _jpeg(image: Image) -> bytes:
    """The picture upright, on white where one sees through it, no larger than `LARGEST`."""
    from PIL import Image, ImageOps

    image.thumbnail((LARGEST, LARGEST))
    turned = ImageOps.exif_transpose(image)
    if turned.mode in ("RGBA", "LA", "PA") or "transparency" in turned.info:
        seen = turned.convert("RGBA")
        turned = Image.new("RGB", seen.size, (255, 255, 255))
        turned.paste(seen, mask=seen.getchannel("A"))
    out = io.BytesIO()
    turned.convert("RGB").save(out, "JPEG", quality=88)
    return out.getvalue()


def _unread(picture: Picture) -> Cover:
    """Without Pillow: by its first bytes."""
    for magic, media_type in _MAGIC.items():
        if picture.data.startswith(magic) and len(picture.data) <= _MOST_BYTES:
            return Cover(Picture(picture.data, media_type))
    return Cover(
        None, f"the cover is left out: Pillow is needed for it (`{format_install('pillow')}`)"
    )


def _reason(error: Exception) -> str:
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    return "no picture" if "cannot identify" in said else said[:80]
