"""How much a file may ask of the machine, from what a person sets."""

from __future__ import annotations

from anyrig.text.formats.limits import Limits

_CHARACTERS = 50_000_000
"""Of one file: a table or a log may be longer than any novel."""


def limits_of(*, max_mb: float, max_pages: int, max_seconds: float) -> Limits:
    """The limits of `[documents]`.

    Args:
        max_mb: of the file as it lies on disk, in millions of bytes.
        max_pages: of one file, with those of what is attached to it.
        max_seconds: to read one file; the time of OCR is not counted.
    """
    return Limits(
        file_bytes=max(1, int(max_mb * 1e6)),
        pages=max_pages,
        seconds=max_seconds,
        characters=_CHARACTERS,
    )
