"""Downloads that continue where they were cut off, each file checked before it gets its name.

A file is received into `NAME.part`, continued there the next time, compared with its published hash
and renamed. A part that turns out to be damaged, or of another file, is downloaded once more from
its beginning.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.errors import MissingWeightsError, StorageError
from anyrig.storage.files import make_folder, opener
from anyrig.units import format_bytes

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)
DownloadProgress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes of all files that are there, and how many there will be."""


class Downloader:
    """Files on their way to a folder.

    Args:
        client: sends the requests.
        total_bytes: of all files that will be fetched.
        on_progress: called as data arrives.
    """

    def __init__(
        self, client: httpx.Client, total_bytes: int, on_progress: DownloadProgress
    ) -> None:
        self._client, self._on_progress = client, on_progress
        self._total_bytes, self._done_bytes = total_bytes, 0

    def fetch(
        self, name: str, url: str, path: Path, size_bytes: int, is_intact: Callable[[Path], bool]
    ) -> None:
        """Download a file, unless it is there and intact."""
        if path.is_file() and is_intact(path):
            self._advance(name, size_bytes)
            return
        make_folder(path.parent)
        part = path.with_name(f"{path.name}.part")
        for attempt in range(2):
            before = self._done_bytes
            self._receive(name, url, part, size_bytes)
            if is_intact(part):
                os.replace(part, path)
                return
            part.unlink()
            self._advance(name, before - self._done_bytes)
            log.warning("%s is damaged%s", name, "" if attempt else "; downloading it again")
        raise MissingWeightsError(
            f"{name} does not match its published checksum, twice",
            hint="Try again later, or get it another way: something changes it in transit.",
        )

    def _receive(self, name: str, url: str, part: Path, size_bytes: int) -> None:
        start = part.stat().st_size if part.exists() else 0
        if start >= size_bytes:
            open(part, "ab", opener=opener).close()  # an empty file is not requested
            self._advance(name, size_bytes)
            return
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        with self._client.stream("GET", url, headers=headers) as answer:
            resumed = answer.raise_for_status().status_code == 206
            self._advance(name, start if resumed else 0)
            with open(part, "ab" if resumed else "wb", opener=opener) as out:
                for block in answer.iter_raw():  # as it comes, so that a cut loses nothing
                    out.write(block)
                    self._advance(name, len(block))

    def _advance(self, name: str, count: int) -> None:
        self._done_bytes += count
        self._on_progress(name, self._done_bytes, self._total_bytes)


def describe_http_error(error: httpx.HTTPError) -> str:
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        reasons = {401: "a token is required", 403: "accept its licence on the hub first",
                   404: "no such repository or revision"}  # fmt: skip
        return f"{code}: {reasons.get(code, error.response.reason_phrase)}"
    return f"no answer ({str(error) or type(error).__name__})"


def check_space(folder: Path, sizes: Iterable[tuple[Path, int]]) -> None:
    """That files of some sizes fit on the disk; those that are there need nothing more."""
    make_folder(folder)
    needed_bytes = sum(size for path, size in sizes if not path.exists())
    free_bytes = shutil.disk_usage(folder).free
    if needed_bytes > free_bytes:
        raise StorageError(
            f"the files take {format_bytes(needed_bytes)}, but {folder} has only"
            f" {format_bytes(free_bytes)} free",
            hint="Free some space, or choose another folder.",
        )
