"""Whether the disks hold what a book will write, asked before the work."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import StorageError
from anyrig.units import format_bytes, format_duration

if TYPE_CHECKING:
    from anyrig.services.book import Order

_STORE_BYTES_PER_SECOND = 2  # times the sample rate: takes are kept as 16-bit samples
_SPARE_BYTES = 64 << 20


def check_room(
    order: Order, audio_s: float, to_make_s: float, *, rate: int, store_folder: Path | None
) -> None:
    """That the disks hold what will be written; `StorageError` names the one that does not.

    Args:
        order: what is wanted.
        audio_s: how long the book will be, about.
        to_make_s: how much of it is not kept yet.
        rate: samples per second.
        store_folder: where takes are kept.
    """
    from anyrig.speech.sound.encode import FORMATS

    made = FORMATS["m4a" if order.format == "m4b" else order.format]
    per_second = (order.bitrate or made.bitrate) / 8 or rate * 2
    needs: dict[Path, float] = {}
    output = _existing(order.output.absolute().parent)
    copies = 3 if order.readalong else 1  # the book, the read-along and what that is made of
    needs[output] = audio_s * per_second * copies + _SPARE_BYTES
    if store_folder is not None:
        kept = _existing(store_folder)
        share = to_make_s * rate * _STORE_BYTES_PER_SECOND
        same = kept.stat().st_dev == output.stat().st_dev
        needs[output if same else kept] = needs.get(output if same else kept, 0.0) + share
    for folder, need in needs.items():
        free = shutil.disk_usage(folder).free
        if need > free:
            raise StorageError(
                f"{folder} has {format_bytes(free)} free, and the book of about "
                f"{format_duration(audio_s)} needs {format_bytes(int(need))}",
                hint="Free some room, name another place with -o, or make some --chapters first.",
            )


def _existing(folder: Path) -> Path:
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder
