"""The files of folders, found, read and split into passages for an index."""

from __future__ import annotations

import os
import random
import stat
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.documents.index.content import Content, content_from_json, find_language
from anyrig.documents.index.plan import NO_OCR, RootListing, resolve_path
from anyrig.documents.reading import apply_all, read_all
from anyrig.errors import InvalidInputError
from anyrig.text.document import Document
from anyrig.text.files import guess_format
from anyrig.text.folder import Skipped, find, parse_types
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.picture import FORMATS as PICTURES
from anyrig.text.sandbox import ReadError

if TYPE_CHECKING:
    from anyrig.documents.reading import Mode as OcrMode
    from anyrig.documents.reading import PictureReader

_SAMPLES, _PICTURES, _SAMPLE_BYTES, _SAMPLE_S = 96, 3, 5_000_000, 5.0
"""What languages are sampled by: files, pictures where there is nothing else, seconds for each.

Of 96 files a share of 34 % is seen as 27 to 41 % nine times in ten; of 24, as 21 to 50 %."""
_FEW_SAMPLES, _MAX_SAMPLE_S = 16, 30.0
"""Files that are read in any case, and seconds for them: a busy machine may read one in five."""


class FolderReader:
    """How the files of folders are found and read.

    Args:
        ocr: reads pictures; None leaves their pages out, with a warning.
        mode: when pictures are read.
        limits: how much a file may ask of the machine.
        types: formats or endings; all when empty.
        retry: try again what could not be read.
    """

    def __init__(
        self,
        *,
        ocr: PictureReader | None = None,
        mode: OcrMode = "auto",
        limits: Limits | None = None,
        types: Sequence[str] = (),
        retry: bool = False,
    ) -> None:
        parse_types(types)  # so that a wrong one is an error before the index is changed
        self.retry = retry
        self.how: str = NO_OCR if ocr is None and mode != "never" else mode
        """Names what shapes the text of files besides their bytes; without spaces."""
        self._ocr, self._mode, self._types = ocr, mode, types
        self._limits = limits or Limits()

    @property
    def max_bytes(self) -> int:
        return self._limits.file_bytes

    def list_files(self, root: Path) -> RootListing:
        """The files of a folder. One that is missing, empty or fails to list is unseen: a drive
        that is not mounted looks like that.
        """
        if reason := _describe_absence(root):
            return RootListing((), (Skipped(root, reason),))
        found = find(root, types=self._types)
        return RootListing(
            found.files, found.unreadable, is_partial=bool(self._types),
            others=tuple(one.path for one in found.skipped),
            outside=tuple(one.path for one in found.outside),
        )  # fmt: skip

    def read(self, paths: Iterable[Path]) -> Iterator[Content | ReadError]:
        """What files say, in passages, in order."""
        for found in apply_all(
            "anyrig.documents.index.content:extract", paths, ocr=self._ocr, mode=self._mode,
            limits=self._limits,
        ):  # fmt: skip
            yield found if isinstance(found, ReadError) else content_from_json(found)

    def read_documents(
        self, paths: Iterable[Path], *, use_ocr: bool = True
    ) -> Iterator[Document | ReadError]:
        ocr, mode = (self._ocr, self._mode) if use_ocr else (None, "never")
        return read_all(paths, ocr=ocr, mode=mode, limits=self._limits)


def resolve_folders(named: Sequence[Path]) -> list[bytes]:
    """Folders and files that exist, as the index names them."""
    for place in named:
        if not place.expanduser().exists():
            raise InvalidInputError(f"no such file or folder: {place}", hint="Check the path.")
    return list(dict.fromkeys(resolve_path(place) for place in named))


def sample_languages(
    roots: Sequence[bytes],
    reader: FolderReader,
    *,
    on_pictures: Callable[[], None] = lambda: None,
) -> Counter[str]:
    """The languages of a few files, drawn from all of them: what a model is chosen by.

    Files with text of their own tell it. Where there are none, a few pictures are read: that takes
    longer, so `on_pictures` is called first. Either ends after some seconds with what is known.
    """
    found = [file for root in roots for file in reader.list_files(Path(os.fsdecode(root))).files]
    small = [file for file in found if _get_size(file) <= _SAMPLE_BYTES]
    texts = [file for file in small if guess_format(file.name) not in PICTURES]
    counts = _count_languages(reader, _draw(texts, _SAMPLES), use_ocr=False)
    if not counts and small:
        on_pictures()
        pictures = [file for file in small if file not in texts]  # of one page, most of them
        counts = _count_languages(reader, _draw(pictures or small, _PICTURES), use_ocr=True)
    return counts


def _count_languages(reader: FolderReader, files: Sequence[Path], *, use_ocr: bool) -> Counter[str]:
    counts: Counter[str] = Counter()
    start = time.monotonic()

    def read() -> Generator[Document | ReadError, None, None]:
        yield from reader.read_documents(files, use_ocr=use_ocr)  # ending early ends its processes

    with closing(read()) as found:
        for number, one in enumerate(found, 1):
            if isinstance(one, Document):
                counts[find_language(one)] += 1
            limit = _SAMPLE_S if use_ocr or number >= _FEW_SAMPLES else _MAX_SAMPLE_S
            if time.monotonic() - start > limit:
                break
    del counts[""]
    return counts


def _draw(files: Sequence[Path], count: int) -> Sequence[Path]:
    """Some of the files, the same every time, in an order of no folder: reading may end early."""
    return random.Random(len(files)).sample(files, min(count, len(files)))


def _describe_absence(root: Path) -> str:
    """Why nothing can be said about the files of a folder; empty if it has any, or is a file."""
    try:
        if not stat.S_ISDIR(os.stat(root).st_mode):
            return ""
        with os.scandir(root) as entries:
            return "" if any(True for _ in entries) else "it is empty"
    except OSError as error:
        return error.strerror or str(error)


def _get_size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return _SAMPLE_BYTES + 1
