"""Model weights in a folder: hashed once, downloaded from the model hub, verified, resumed.

A file is downloaded to `NAME.part`, continued there the next time, hashed against what the hub
lists, and only then gets its name. Pickles are not downloaded: loading one runs what is in it.
`weights.json` beside the files records where they come from and at which revision.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from anyrig.errors import InvalidInputError, MissingWeightsError, StorageError
from anyrig.storage.files import write_atomic
from anyrig.units import format_bytes

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)
ORIGIN_FILE = "weights.json"
_HASHES_FILE = ".anyrig-hashes.json"
_BLOCK_BYTES = 1 << 20
# What engines read. Other files stay on the hub: pickles, other frameworks, pictures.
DEFAULT_PATTERNS = (
    "*.safetensors", "*.json", "*.txt", "*.model", "*.onnx", "*.wav", "*.jinja", "LICENSE*",
    "*.yaml",
)  # fmt: skip
DownloadProgress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes of all files that are there, and how many there will be."""


@dataclass(frozen=True)
class HubFile:
    """A file on the hub."""

    path: str
    size: int
    digest: str
    is_lfs: bool
    """Then the digest is a SHA-256, otherwise Git's own hash."""


def hash_files(paths: Iterable[Path]) -> str:
    """One hash of some files: of their names and their contents."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.name}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()


def hash_file(path: Path) -> str:
    """A file's SHA-256, remembered beside it as long as its size and time stay the same."""
    state = path.stat()
    stamp = f"{state.st_size} {state.st_mtime_ns}"
    hashes_file = path.parent / _HASHES_FILE
    known = _read_json(hashes_file)
    entry = known.get(path.name)
    if isinstance(entry, list) and len(entry) == 2 and entry[0] == stamp:
        return str(entry[1])
    digest = _sha256(path)
    try:
        write_atomic(hashes_file, json.dumps({**known, path.name: [stamp, digest]}, indent=1))
    except OSError:
        log.debug("cannot write %s: the hash is computed each time", hashes_file)
    return digest


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def missing_weights_error(
    engine: str, folder: Path | None, how: str, files: Sequence[str]
) -> MissingWeightsError:
    """The error for weights that are not there, with the folder to fill."""
    where = f" in {folder}" if folder else ""
    return MissingWeightsError(
        f"the weights of {engine} were not found{where}: {', '.join(files)}",
        hint=f"{how} Or name a folder that contains them with --model.",
    )


def download_weights(
    repository: str,
    folder: Path,
    *,
    endpoint: str = "",
    revision: str = "main",
    token: str = "",
    on_progress: DownloadProgress | None = None,
    patterns: Sequence[str] = DEFAULT_PATTERNS,
) -> list[Path]:
    """Download a repository's files to a folder, except those that are there and intact.

    Args:
        repository: `owner/name` on the hub.
        folder: where they go; created if necessary.
        endpoint: of the hub; empty for the default.
        revision: a branch, a tag or a commit.
        token: for repositories that require one.
        on_progress: called as data arrives.
        patterns: which files, by name.
    """
    import httpx
    from huggingface_hub.constants import ENDPOINT

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        with httpx.Client(
            base_url=endpoint or ENDPOINT, headers=headers, follow_redirects=True, timeout=30
        ) as hub:
            download = _Download(hub, repository, revision, folder, patterns, on_progress)
            paths = [download.fetch(file) for file in download.files]
    except httpx.HTTPError as error:
        raise MissingWeightsError(
            f"the weights of {repository} could not be downloaded: {_describe_error(error)}",
            hint=f"Run it again to resume, or copy the repository's files to {folder}.",
        ) from error
    if not paths:
        raise InvalidInputError(
            f"{repository} contains no file that can be used", hint="Is it the right repository?"
        )
    origin = {
        "repository": repository,
        "revision": download.commit,
        "files": {file.path: file.size for file in download.files},
    }
    write_atomic(folder / ORIGIN_FILE, json.dumps(origin, indent=1))
    return paths


class _Download:
    """The files of one commit on their way to a folder."""

    def __init__(
        self,
        hub: httpx.Client,
        repository: str,
        revision: str,
        folder: Path,
        patterns: Sequence[str],
        on_progress: DownloadProgress | None,
    ) -> None:
        self._hub, self._repository, self._folder = hub, repository, folder
        answer = hub.get(f"/api/models/{repository}/revision/{revision}").raise_for_status()
        self.commit = str(answer.json()["sha"])
        self.files = [file for file in self._list_files() if _is_wanted(file.path, patterns)]
        self._on_progress = on_progress
        self._total_bytes, self._done_bytes = sum(file.size for file in self.files), 0
        _check_space(folder, self.files)

    def _list_files(self) -> Iterator[HubFile]:
        url = f"/api/models/{self._repository}/tree/{self.commit}?recursive=true"
        while url:
            answer = self._hub.get(url).raise_for_status()
            for row in answer.json():
                if row.get("type") == "file":
                    lfs = row.get("lfs")
                    digest = lfs["oid"] if lfs else row["oid"]
                    yield HubFile(str(row["path"]), int(row["size"]), str(digest), bool(lfs))
            url = answer.links.get("next", {}).get("url", "")

    def fetch(self, file: HubFile) -> Path:
        path = self._folder / file.path
        if path.is_file() and _is_intact(path, file):
            self._advance(file, file.size)
            return path
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        for attempt in range(2):
            self._receive(file, part)
            if _is_intact(part, file):
                os.replace(part, path)
                return path
            part.unlink()  # a part of something else, or damaged in transit: from the beginning
            self._advance(file, -file.size)
            log.warning("%s is damaged%s", file.path, "" if attempt else "; downloading it again")
        raise MissingWeightsError(
            f"{file.path} of {self._repository} does not match the hub's checksum, twice",
            hint="Try again later, or get it another way: something changes it in transit.",
        )

    def _receive(self, file: HubFile, part: Path) -> None:
        start = part.stat().st_size if part.exists() else 0
        if start >= file.size:
            self._advance(file, file.size)
            return
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        url = f"/{self._repository}/resolve/{self.commit}/{file.path}"
        with self._hub.stream("GET", url, headers=headers) as answer:
            answer.raise_for_status()
            resumed = answer.status_code == 206
            self._advance(file, start if resumed else 0)
            with part.open("ab" if resumed else "wb") as out:
                for block in answer.iter_raw():  # as it comes, so that a cut loses nothing
                    out.write(block)
                    self._advance(file, len(block))

    def _advance(self, file: HubFile, count: int) -> None:
        self._done_bytes += count
        if self._on_progress is not None:
            self._on_progress(file.path, self._done_bytes, self._total_bytes)


def _describe_error(error: httpx.HTTPError) -> str:
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        reasons = {401: "a token is required", 403: "accept its licence on the hub first",
                   404: "no such repository or revision"}  # fmt: skip
        return f"{code}: {reasons.get(code, error.response.reason_phrase)}"
    return f"no answer ({str(error) or type(error).__name__})"


def _is_wanted(path: str, patterns: Sequence[str]) -> bool:
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or "\\" in path or ":" in path:
        raise InvalidInputError(
            f"the hub lists a file outside of its folder: {path!r}", hint="Do not use it."
        )
    return any(fnmatch(parts[-1], pattern) for pattern in patterns)


def _check_space(folder: Path, files: Sequence[HubFile]) -> None:
    import shutil

    folder.mkdir(parents=True, exist_ok=True)
    needed_bytes = sum(file.size for file in files if not (folder / file.path).exists())
    free_bytes = shutil.disk_usage(folder).free
    if needed_bytes > free_bytes:
        raise StorageError(
            f"the weights take {format_bytes(needed_bytes)}, but {folder} has only"
            f" {format_bytes(free_bytes)} free",
            hint="Free some space, or choose another folder.",
        )


def _is_intact(path: Path, file: HubFile) -> bool:
    if path.stat().st_size != file.size:
        return False
    if file.is_lfs:
        return _sha256(path) == file.digest
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() == file.digest
