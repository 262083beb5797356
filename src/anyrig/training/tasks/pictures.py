"""Pictures of a folder or of a manifest as squares of bytes: read once, kept beside the run, handed
out as items.

Every picture is decoded when the job is built, so what is broken, too large or no picture is known
and named before the first step. Small sets stay on disk as one array; of large ones only the list
is kept, and a picture is decoded again when it is its turn.
"""

from __future__ import annotations

import hashlib
import io
import json
import logging
import random
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn import functional as F

from anyrig.errors import AnyrigError, InvalidInputError, LimitExceededError
from anyrig.storage.files import open_atomic, write_atomic
from anyrig.text import folder as folders
from anyrig.text.formats import picture
from anyrig.text.formats.limits import Limits
from anyrig.text.manifest import Resolve, Trouble, check_size, is_manifest, iterate_manifest

if TYPE_CHECKING:
    import numpy as np
    from PIL.Image import Image

log = logging.getLogger(__name__)
MAX_PIXELS = 100_000_000
"""Of one picture: what claims more is refused before it is unpacked."""
MAX_BYTES = 500_000_000
"""Of one file."""
_THREADS = 4
_LARGE_BYTES = 100_000_000
"""Of memory to decode a picture: those that take more are decoded one at a time."""
_MAX_WHOLE_PIXELS = 4_000_000
"""Pixels of a picture that is taken as a whole; larger ones are reduced band by band first."""
_HINT = "Get another copy of the file, or save it with another program."


def read(
    source: Path | str | bytes, size: int, channels: int
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A picture as bytes (channels, size, size): upright, its middle, on white where it is clear.

    Whatever is wrong with it is a `InvalidInputError`.
    """
    source = Path(source) if isinstance(source, str) else source
    made = _read(source, size, channels, picture.MOST_DECODE_BYTES)
    assert made is not None  # `_open_image` refuses what takes more
    return made


def _read(
    source: Path | bytes, size: int, channels: int, max_bytes: int
) -> np.ndarray[Any, np.dtype[np.uint8]] | None:
    """The same; None for a picture that takes more memory to decode than `max_bytes`."""
    name = source.name if isinstance(source, Path) else "the picture"
    data = _bytes(source, name)
    try:
        with _open_image(data, name) as image:
            if picture.estimate_decode_bytes(image) > max_bytes:
                return None
            return _square(image, size, channels)
    except (AnyrigError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - decoders raise whatever they like
        raise InvalidInputError(f"{name} is damaged: {error}", hint=_HINT) from error


def _bytes(source: Path | bytes, name: str) -> bytes:
    if isinstance(source, bytes):
        return source
    try:
        if not source.is_file():
            raise InvalidInputError(f"{source} is not a file", hint="Pass the path of a picture.")
        if source.stat().st_size > MAX_BYTES:
            raise LimitExceededError(
                f"{name} is larger than {MAX_BYTES // 1_000_000} MB", hint="Make it smaller."
            )
        return source.read_bytes()
    except OSError as error:
        raise InvalidInputError(
            f"{source} cannot be read: {error.strerror}", hint="Check its permissions."
        ) from None


def _open_image(data: bytes, name: str) -> Image:
    form = picture.detect_picture_format(data[:64])
    if not form:
        raise InvalidInputError(
            f"{name} is no picture", hint="Give PNG, JPEG, WebP, TIFF, GIF or BMP."
        )
    image = picture.open_picture(io.BytesIO(data), name, form, Limits(pixels=MAX_PIXELS))
    needed = picture.estimate_decode_bytes(image)
    if needed > picture.MOST_DECODE_BYTES:
        kind, most = image.format or "a picture", picture.MOST_DECODE_BYTES // 1_000_000
        image.close()
        raise LimitExceededError(
            f"{name} is {kind} of {image.width:,} x {image.height:,} pixels: it takes more than"
            f" {most} MB to decode",
            hint="Make it smaller, or save it as PNG.",
        )
    return image


def _square(image: Image, size: int, channels: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    import numpy as np
    from PIL import Image as images
    from PIL import ImageOps

    mode = "L" if channels == 1 else "RGB"
    if image.format == "JPEG":
        image.draft(mode, (2 * size, 2 * size))  # decoded small: several times faster
    image.load()
    if image.width * image.height > _MAX_WHOLE_PIXELS:
        image = _reduce(image, 2 * size, mode)
    upright = ImageOps.exif_transpose(image)
    deep = upright.mode.startswith(("I", "F"))
    made = picture.lay_on_white(_stretch_range(upright) if deep else upright, mode)
    fitted = ImageOps.fit(made, (size, size), images.Resampling.BICUBIC)
    array = np.asarray(fitted, dtype=np.uint8)
    return array[None] if channels == 1 else np.ascontiguousarray(array.transpose(2, 0, 1))


def _reduce(image: Image, least: int, mode: str) -> Image:
    """The middle square of a picture, its side divided by a whole number to `least` or more."""
    from PIL import Image as images

    exif = image.getexif()
    side = min(image.size)
    factor = max(1, side // least)
    side -= side % factor
    left, top = (image.width - side) // 2, (image.height - side) // 2
    middle = (left, top, left + side, top + side)
    deep = image.mode.startswith(("I", "F"))
    made = images.new("F" if deep else mode, (side // factor, side // factor))
    for start, band in picture.iterate_bands(image, factor, middle):
        flat = band.convert("F") if deep else picture.lay_on_white(band, mode)
        made.paste(flat.reduce(factor), (0, start // factor))
    made.info["exif"] = exif.tobytes() if len(exif) else b""
    return made


def _stretch_range(image: Image) -> Image:
    """Sixteen bits and floating numbers as 256 greys: from the darkest to the lightest there is."""
    import numpy as np
    from PIL import Image as images

    values = np.nan_to_num(np.asarray(image, dtype=np.float64))
    low, high = float(values.min()), float(values.max())
    scale = 255.0 / (high - low) if high > low else 0.0
    return images.fromarray(((values - low) * scale).round().astype(np.uint8))


class _PictureEntry(NamedTuple):
    """A picture to read."""

    path: Path
    name: str
    """Below the folder; the whole path of one that lies elsewhere."""
    label: str
    place: str
    """What an error names: the path, or the line of a manifest."""


@dataclass(frozen=True)
class PictureSet:
    """The pictures of a folder or a manifest that can be used."""

    names: tuple[str, ...]
    """Paths below the folder, in order."""
    labels: tuple[str, ...]
    """The class of each; empty if it has none."""
    folder: Path
    size: int
    channels: int
    mean: tuple[float, ...]
    """Of each channel over all pictures, from 0 to 255."""
    std: tuple[float, ...]
    array: Path | None = None
    """Where their bytes lie; None if each is read from its file."""
    skipped: Mapping[str, str] = field(default_factory=dict)


def gather(
    source: Path,
    run: Path,
    size: int,
    channels: int,
    cache_gb: float,
    resolve: Resolve | None = None,
) -> PictureSet:
    """The pictures below a folder, each of the class that its subfolder is called, or those of a
    manifest. A run goes on with the list it began with.
    """
    if not source.is_dir() and not is_manifest(source):
        raise InvalidInputError(
            f"{source} is neither a folder nor a manifest",
            hint="Pass a folder of pictures, or a .csv or .jsonl with file and label.",
        )
    key = json.dumps([str(source), size, channels, cache_gb > 0])
    about = run / f"pictures-{hashlib.sha256(key.encode()).hexdigest()[:16]}.json"
    cached = _read_cached(about, source, size, channels)
    return cached or _gather(about, source, size, channels, cache_gb, resolve)


def _read_cached(about: Path, source: Path, size: int, channels: int) -> PictureSet | None:
    try:
        summary = json.loads(about.read_text(encoding="utf-8"))
        array = about.with_suffix(".uint8") if summary["cached"] else None
        expected = len(summary["names"]) * channels * size * size
        if array is not None and array.stat().st_size != expected:
            return None
        names = tuple(summary["names"])
        labels = summary.get("labels") or [_label_by_folder(name) for name in names]  # of 0.1.0
        return PictureSet(
            names, tuple(labels), _folder_of(source), size, channels, tuple(summary["mean"]),
            tuple(summary["std"]), array, dict(summary["skipped"]),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _folder_of(source: Path) -> Path:
    return source if source.is_dir() else source.parent


def _label_by_folder(name: str) -> str:
    folder, _, rest = name.partition("/")
    return folder if rest else ""


def _list_folder(folder: Path, skipped: dict[str, str]) -> list[_PictureEntry]:
    found = folders.find(folder, types=("picture",))
    left_out = (*found.skipped, *found.unreadable, *found.outside)
    skipped |= {str(one.path): one.reason for one in left_out}
    listed = []
    for path in found.files:
        name = path.relative_to(folder).as_posix()
        listed.append(_PictureEntry(path, name, _label_by_folder(name), str(path)))
    return listed


def _list_manifest(
    path: Path, skipped: dict[str, str], resolve: Resolve | None
) -> list[_PictureEntry]:
    check_size(path, "Make it smaller.")
    listed: dict[Path, _PictureEntry] = {}
    for one in iterate_manifest(path, resolve=resolve):
        if isinstance(one, Trouble):
            skipped[one.place] = one.reason
        elif one.file is None:
            skipped[one.place] = "it names no file"
        elif len(one.labels) != 1:
            skipped[one.place] = f"it has {len(one.labels)} labels, and must have one"
        elif one.file in listed:
            skipped[one.place] = f"the file is listed already: {listed[one.file].place}"
        else:
            inside = one.file.is_relative_to(path.parent)
            name = one.file.relative_to(path.parent) if inside else one.file
            listed[one.file] = _PictureEntry(one.file, name.as_posix(), one.labels[0], one.place)
    return list(listed.values())


def _gather(
    about: Path, source: Path, size: int, channels: int, cache_gb: float, resolve: Resolve | None
) -> PictureSet:
    skipped: dict[str, str] = {}
    is_folder = source.is_dir()
    listed = (
        _list_folder(source, skipped) if is_folder else _list_manifest(source, skipped, resolve)
    )
    cached = len(listed) * channels * size * size <= cache_gb * (1 << 30)
    array = about.with_suffix(".uint8")
    with open_atomic(array) as file:
        used, sums = _decode(listed, size, channels, skipped, file if cached else None)
    if not used:
        why = "" if is_folder or not skipped else ": {}: {}".format(*next(iter(skipped.items())))
        raise InvalidInputError(
            f"there is no picture that can be read in {source}{why}",
            hint="Pass a folder of PNG, JPEG, WebP, TIFF, GIF or BMP files, or a CSV or JSON lines "
            "with file and label.",
        )
    if not cached:
        array.unlink(missing_ok=True)  # another process of the run may have been faster
    mean, std = _statistics(sums, len(used) * size * size)
    names, labels = [one.name for one in used], [one.label for one in used]
    summary = {
        "names": names, "labels": labels, "mean": mean, "std": std, "cached": cached,
        "skipped": skipped,
    }  # fmt: skip
    write_atomic(about, json.dumps(summary, indent=1))
    return PictureSet(
        tuple(names), tuple(labels), _folder_of(source), size, channels, mean, std,
        array if cached else None, skipped,
    )  # fmt: skip


def _decode(
    listed: Sequence[_PictureEntry], size: int, channels: int, skipped: dict[str, str], file: Any
) -> tuple[list[_PictureEntry], torch.Tensor]:
    """Those that can be decoded, and the sums of their values and squares by channel."""
    used, sums = [], torch.zeros(2, channels, dtype=torch.float64)

    def one(
        path: Path, max_bytes: int = _LARGE_BYTES
    ) -> np.ndarray[Any, np.dtype[np.uint8]] | str | None:
        try:
            return _read(path, size, channels, max_bytes)
        except AnyrigError as error:
            return error.message

    with ThreadPoolExecutor(_THREADS) as pool:
        decoded = pool.map(one, [each.path for each in listed])
        for each, made in zip(listed, decoded, strict=True):
            if made is None:  # by this thread: each thread's allocator keeps what it once had
                made = one(each.path, picture.MOST_DECODE_BYTES)
            assert made is not None
            if isinstance(made, str):
                skipped[each.place] = made
                continue
            used.append(each)
            values = torch.from_numpy(made.astype("float64"))
            sums += torch.stack((values.sum((1, 2)), values.square().sum((1, 2))))
            if file is not None:
                file.write(made.tobytes())
    return used, sums


def _statistics(sums: torch.Tensor, count: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    mean = sums[0] / count
    std = (sums[1] / count - mean.square()).clamp(min=0).sqrt()
    # Pictures of one colour: nothing to divide by.
    std = torch.where(std < 1e-3, torch.ones_like(std), std)
    return tuple(mean.tolist()), tuple(std.tolist())


@dataclass(frozen=True)
class Augmentation:
    """How a picture is changed each time it is seen. Draws are Python's and torch's own."""

    crop: int = 0
    """Pixels by which it is moved at most, in each direction; what is missing is mirrored."""
    flip: bool = False
    """Mirrored, every other time."""

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        """A changed copy of a picture (channels, size, size)."""
        if self.crop:
            size = image.shape[-1]
            wide = F.pad(image[None].float(), [self.crop] * 4, mode="reflect")[0]
            top, left = (random.randint(0, 2 * self.crop) for _ in range(2))
            image = wide[:, top : top + size, left : left + size].to(torch.uint8)
        if self.flip and random.random() < 0.5:
            image = image.flip(-1)
        return image


class Pictures:
    """A data set of `{"image": bytes (channels, size, size), "label": number}`.

    The array is opened by whoever reads first, so the data set can be sent to another process.
    """

    def __init__(
        self,
        gathered: PictureSet,
        numbers: Sequence[int],
        labels: Sequence[int] | None = None,
        changes: Augmentation | None = None,
    ) -> None:
        self.gathered = gathered
        self.numbers = tuple(numbers)
        self.labels = tuple(labels) if labels is not None else None
        self.changes = changes
        self.random_items = changes is not None and bool(changes.crop or changes.flip)
        self._array: np.ndarray[Any, np.dtype[np.uint8]] | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, number: int) -> dict[str, torch.Tensor]:
        if not 0 <= number < len(self.numbers):
            raise IndexError(number)
        image = self._image(self.numbers[number])
        item = {"image": image if self.changes is None else self.changes(image)}
        if self.labels is not None:
            item["label"] = torch.tensor(self.labels[number])
        return item

    def _image(self, number: int) -> torch.Tensor:
        import numpy as np

        known = self.gathered
        if known.array is None:
            array = read(known.folder / known.names[number], known.size, known.channels)
            return torch.from_numpy(array.copy())
        if self._array is None:
            shape = (len(known.names), known.channels, known.size, known.size)
            self._array = np.memmap(known.array, dtype=np.uint8, mode="r", shape=shape)
        return torch.from_numpy(np.array(self._array[number]))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_array": None}


def split_validation(names: Sequence[str], share: float, seed: int) -> tuple[list[int], list[int]]:
    """Numbers of what is trained on and of what is only measured.

    By a hash of seed and name: a picture stays on its side when others come or go. Of two or more,
    at least one is on each side.
    """
    if share <= 0 or len(names) < 2:
        return list(range(len(names))), []
    marks = [
        hashlib.sha256(f"{seed}/{name}".encode(errors="surrogateescape")).digest() for name in names
    ]
    order = sorted(range(len(names)), key=marks.__getitem__)
    count = min(max(1, round(len(names) * share)), len(names) - 1)
    return sorted(order[count:]), sorted(order[:count])
