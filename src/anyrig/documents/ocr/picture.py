"""A picture's bytes to a page in grey: upright by its metadata, on white, clean, not too large."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING

from anyrig.errors import InvalidInputError
from anyrig.text.formats.picture import lay_on_white, list_pillow_formats

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Grey = NDArray[np.uint8]

_MAX_PIXELS = 24_000_000
"""Of a page that is read: an A3 sheet at 300 dpi has 17 million. More are made smaller."""
_MAX_OPENED_PIXELS = 400_000_000
"""Of a picture that is opened at all: beyond it only a bomb or a map is left."""
_SPECKLED = 0.0015
"""A share of specks above which a page is dirty: no writing has so many."""
_DARK = 100
_UNLIKE = 70


def decode_picture(data: bytes) -> Grey:
    """The page of a picture's bytes; InvalidInputError where they are none."""
    import numpy as np
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings(), _open_image(data) as image:
            warnings.simplefilter("ignore")  # a bomb is told by its size, below
            check_size(image.width, image.height)
            if image.format == "JPEG":  # decodes at a half or a quarter where that is enough
                image.draft("L", _limit_size(image.width, image.height))
            is_deep = image.mode.startswith(("I", "F"))
            flat = _from_deep(image) if is_deep else lay_on_white(image)
            page = flat if flat is not image else image.copy()
            page = ImageOps.exif_transpose(page)
            small = _limit_size(page.width, page.height)
            if small != page.size:
                page = page.resize(small, Image.Resampling.BOX)
            return np.asarray(page, np.uint8).copy()
    except InvalidInputError:
        raise
    except (
        UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError, IndexError, TypeError,
        Image.DecompressionBombError, MemoryError,
    ) as error:  # fmt: skip
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise InvalidInputError(
            f"the picture cannot be opened: {reason}",
            hint="It may be cut off or damaged: open it in a viewer and save it again.",
        ) from error


def _open_image(data: bytes) -> Image.Image:
    from PIL import Image as Images

    return Images.open(io.BytesIO(data), formats=list_pillow_formats())


def check_size(width: int, height: int) -> None:
    """That a picture may be opened at all; InvalidInputError when it is too large."""
    if width * height > _MAX_OPENED_PIXELS:
        raise InvalidInputError(
            f"the picture has {width:,} by {height:,} pixels",
            hint=f"At most {_MAX_OPENED_PIXELS:,} pixels are opened: make it smaller.",
        )


def _limit_size(width: int, height: int) -> tuple[int, int]:
    share = (_MAX_PIXELS / max(1, width * height)) ** 0.5
    if share >= 1:
        return width, height
    return max(1, int(width * share)), max(1, int(height * share))


def _from_deep(image: Image.Image) -> Image.Image:
    """Sixteen bits brought down to eight."""
    import numpy as np
    from PIL import Image as Images

    values = np.nan_to_num(np.asarray(image, np.float32))
    low, high = float(values.min(initial=0)), float(values.max(initial=0))
    top = 65535.0 if high > 255 else 255.0 if high > 1 else 1.0
    scaled = (values - min(low, 0.0)) * (255.0 / top)
    return Images.fromarray(np.clip(scaled, 0, 255).astype(np.uint8))


def clean(page: Grey) -> tuple[Grey, tuple[str, ...]]:
    """A dirty or dark page made easier to read, and what was done to it."""
    import cv2
    import numpy as np

    notes: list[str] = []
    if float(np.median(page)) < _DARK:
        page = np.asarray(255 - page, np.uint8)
        notes.append("light text on dark was inverted")
    if _share_of_specks(page) > _SPECKLED:
        page = np.asarray(cv2.medianBlur(page, 3), np.uint8)
        notes.append("specks were removed")
    return page, tuple(notes)


def _share_of_specks(page: Grey) -> float:
    """The share of dark pixels unlike all their neighbours.

    Dots of letters in small print are such pixels too, but few: one in 3,000.
    """
    import cv2
    import numpy as np

    ring = np.ones((3, 3), np.uint8)
    ring[1, 1] = 0
    darkest = cv2.erode(page, ring)
    paper = float(np.median(page))
    lone = (page.astype(np.int16) + _UNLIKE < darkest) & (darkest > paper - _UNLIKE)
    return float(lone.mean())


if TYPE_CHECKING:
    from PIL import Image
