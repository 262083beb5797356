"""gzip: the file inside is read as if it had been unpacked."""

from __future__ import annotations

import gzip
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from anyrig.errors import InvalidInputError, LimitExceededError
from anyrig.text.document import Document
from anyrig.text.formats.limits import Limits, OnPage

MAGIC = b"\x1f\x8b"
_SUFFIXES = (".gz", ".gzip", ".z")
_BLOCK_BYTES = 1 << 20
_HEAD_BYTES = 4096
_GZIP = 31
"""How zlib is told that data has gzip's header."""
_AGAIN = "Get another copy of the file: this one is damaged, or malicious."


def read(path: Path, limits: Limits) -> Document:
    """The document inside, with the format that it has."""
    from anyrig.text import files

    with unpack(path, limits) as inner:
        return replace(files.read(inner, limits=limits), path=path)


def read_pages(path: Path, limits: Limits, on_page: OnPage | None) -> Document:
    from anyrig.text import files

    with unpack(path, limits) as inner:
        return replace(files.read(inner, paged=True, limits=limits, on_page=on_page), path=path)


def render_pages(path: Path, numbers: Sequence[int], dpi: int, limits: Limits) -> Iterator[bytes]:
    from anyrig.text import files

    with unpack(path, limits) as inner:
        yield from files.render_pages(inner, numbers, dpi, limits)


def read_head(path: Path) -> bytes:
    """The first bytes of what is inside."""
    with path.open("rb") as file, _errors(path):
        head = zlib.decompressobj(wbits=_GZIP).decompress(file.read(_BLOCK_BYTES), _HEAD_BYTES)
        if not head and file.read(1):  # a name without end: to look for it takes minutes
            raise gzip.BadGzipFile("its header is too long")
        return head


def check_content(path: Path) -> None:
    """`InvalidInputError` if what is inside is an archive of many files, or gzip once more."""
    head = read_head(path)
    if head[257:262] == b"ustar":
        raise InvalidInputError(
            f"{path.name} is a tar archive", hint="Unpack it and pass one file, or the folder."
        )
    if head.startswith(MAGIC):
        raise InvalidInputError(f"{path.name} is compressed twice", hint="Unpack it once.")


def inner_name(name: str) -> str:
    """What a file is called once it is unpacked."""
    stem, dot, suffix = name.rpartition(".")
    return stem if stem and f"{dot}{suffix}".lower() in _SUFFIXES else name


@contextmanager
def unpack(path: Path, limits: Limits) -> Iterator[Path]:
    """The file inside, in a folder that is deleted afterwards."""
    check_content(path)
    packed_bytes = max(path.stat().st_size, 1)
    with tempfile.TemporaryDirectory(prefix="anyrig-gz-") as folder:
        inner = Path(folder) / inner_name(path.name)
        size = 0
        with _errors(path), gzip.open(path) as source, inner.open("wb") as target:
            while block := source.read(_BLOCK_BYTES):
                size += len(block)
                bomb = size > limits.ratio_from_bytes and size > limits.ratio * packed_bytes
                if bomb or size > limits.member_bytes:
                    raise LimitExceededError(
                        f"{path.name} unpacks to more than {(size - 1) // 1_000_000} MB",
                        hint="Unpack it yourself if you trust it, and pass the file inside.",
                        limit="member_bytes",
                    )
                target.write(block)
        yield inner


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInputError(
            f"{path.name} is not a valid gzip file ({error})", hint=_AGAIN
        ) from error
