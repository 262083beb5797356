"""Model weights in a folder: hashed once, downloaded from the model hub, verified, resumed.

A file is downloaded to `NAME.part`, continued there the next time, hashed against what the hub
lists, and only then gets its name; huggingface_hub checks sizes only, and begins anew in each
process. Pickles are not downloaded: loading one runs what is in it. `weights.json` beside the files
records where they come from and at which revision.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.errors import (
    InvalidInputError,
    Message,
    MissingWeightsError,
    OptionRef,
    StorageError,
)
from anyrig.install import format_install
from anyrig.storage.files import make_folder, opener, read_json, write_atomic
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
_REPOSITORY = re.compile(r"[\w-][\w.-]{0,95}/[\w-][\w.-]{0,95}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
DownloadProgress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes of all files that are there, and how many there will be."""


class HubFile(NamedTuple):
    """A file on the hub."""

    path: str
    size: int
    git_hash: str
    sha256: str
    """Empty for small files, which only have Git's hash."""


def find_cached_repository(repository: str, revision: str = "main") -> Path | None:
    """The folder of a repository in the cache that huggingface_hub and transformers share, found
    without the network; None if it is not there, or a file of it is missing.

    Args:
        repository: `owner/name` on the hub.
        revision: a branch, a tag or a commit.
    """
    if not _REPOSITORY.fullmatch(repository):
        return None
    for cache in _list_hub_caches():
        folder = cache / f"models--{repository.replace('/', '--')}"
        try:
            commit = (folder / "refs" / revision).read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            commit = revision
        snapshot = folder / "snapshots" / commit
        if commit and Path(commit).name == commit and _is_whole(snapshot):
            return snapshot
    return None


def _list_hub_caches() -> list[Path]:
    """Where repositories are cached, as huggingface_hub decides it when it is imported."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or f"{home}/huggingface"
    hub = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    named = [hub or f"{home}/hub", os.environ.get("TRANSFORMERS_CACHE", "")]
    return [Path(os.path.expandvars(one)).expanduser() for one in named if one]


def _is_whole(snapshot: Path) -> bool:
    """Whether no file of a snapshot is a link to a blob that was deleted or never arrived."""
    try:
        files = [path for path in snapshot.rglob("*") if not path.is_dir()]
    except OSError:
        return False
    return bool(files) and all(path.is_file() for path in files)


def get_repository_name(folder: Path) -> str:
    """The `owner/name` of a folder that `find_cached_repository` gave; else the folder's name."""
    repository = _find_repository_folder(folder)
    if repository is None:
        return folder.name
    return repository.name.removeprefix("models--").replace("--", "/", 1)


def _find_repository_folder(path: Path) -> Path | None:
    for one in path.parents:
        if one.name == "snapshots" and one.parent.name.startswith("models--"):
            return one.parent
    return None


def hash_files(paths: Iterable[Path]) -> str:
    """One hash of some files: of their names and their contents."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.name}\0{hash_file(path)}\n".encode())
    return digest.hexdigest()


def hash_file(path: Path) -> str:
    """A file's SHA-256, remembered beside it as long as its size and time stay the same."""
    if _find_repository_folder(path):
        return _hash_cached_file(path)
    state = path.stat()
    stamp = f"{state.st_size} {state.st_mtime_ns}"
    hashes_file = path.parent / _HASHES_FILE
    known = read_json(hashes_file)
    entry = known.get(path.name)
    if isinstance(entry, list) and len(entry) == 2 and entry[0] == stamp:
        return str(entry[1])
    digest = _sha256(path)
    try:
        write_atomic(hashes_file, json.dumps({**known, path.name: [stamp, digest]}, indent=1))
    except OSError:
        log.debug("cannot write %s: the hash is computed each time", hashes_file)
    return digest


def _hash_cached_file(path: Path) -> str:
    """The SHA-256 of a file in the hub's cache, where large files have it as their name. Nothing is
    written there.
    """
    blob = path.resolve().name
    return blob if _SHA256.fullmatch(blob) else _sha256(path)


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
        hint=Message(
            "{how} Or name a folder that contains them with {model}.",
            how=how,
            model=OptionRef("model"),
        ),
    )


def download_weights(
    repository: str,
    folder: Path,
    *,
    endpoint: str = "",
    revision: str = "main",
    token: str = "",
    on_progress: DownloadProgress = lambda *_: None,
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
            answer = hub.get(f"/api/models/{repository}/revision/{revision}?blobs=true")
            commit, files = _parse_listing(answer.raise_for_status().json(), patterns)
            if not files:
                raise InvalidInputError(
                    f"{repository} contains no file that can be used",
                    hint="Is it the right repository?",
                )
            _check_space(folder, files)
            total_bytes = sum(file.size for file in files)
            download = _Download(hub, f"/{repository}/resolve/{commit}", total_bytes, on_progress)
            for file in files:
                download.fetch(file, folder / file.path)
    except httpx.HTTPError as error:
        raise MissingWeightsError(
            f"the weights of {repository} could not be downloaded: {_describe_error(error)}",
            hint=f"Run it again to resume, or copy the repository's files to {folder}.",
        ) from error
    sizes = {file.path: file.size for file in files}
    origin = {"repository": repository, "revision": commit, "files": sizes}
    write_atomic(folder / ORIGIN_FILE, json.dumps(origin, indent=1))
    return [folder / file.path for file in files]


def _parse_listing(data: dict[str, Any], patterns: Sequence[str]) -> tuple[str, list[HubFile]]:
    files = []
    for row in data["siblings"]:
        path = PurePosixPath(row["rfilename"])
        if path.is_absolute() or ".." in path.parts or {"\\", ":"} & set(row["rfilename"]):
            raise InvalidInputError(
                f"the hub lists a file outside of its folder: {str(path)!r}", hint="Do not use it."
            )
        if any(fnmatch(path.name, pattern) for pattern in patterns):
            sha256 = (row.get("lfs") or {}).get("sha256", "")
            files.append(HubFile(str(path), int(row["size"]), row["blobId"], sha256))
    return str(data["sha"]), files


class _Download:
    """Files of one commit on their way to a folder."""

    def __init__(
        self, hub: httpx.Client, url: str, total_bytes: int, on_progress: DownloadProgress
    ) -> None:
        self._hub, self._url, self._on_progress = hub, url, on_progress
        self._total_bytes, self._done_bytes = total_bytes, 0

    def fetch(self, file: HubFile, path: Path) -> None:
        if path.is_file() and _is_intact(path, file):
            self._advance(file, file.size)
            return
        make_folder(path.parent)
        part = path.with_name(f"{path.name}.part")
        for attempt in range(2):
            self._receive(file, part)
            if _is_intact(part, file):
                os.replace(part, path)
                return
            part.unlink()  # a part of something else, or damaged in transit: from the beginning
            self._advance(file, -file.size)
            log.warning("%s is damaged%s", file.path, "" if attempt else "; downloading it again")
        raise MissingWeightsError(
            f"{file.path} does not match the hub's checksum, twice",
            hint="Try again later, or get it another way: something changes it in transit.",
        )

    def _receive(self, file: HubFile, part: Path) -> None:
        start = part.stat().st_size if part.exists() else 0
        if start >= file.size:
            open(part, "ab", opener=opener).close()  # an empty file is not requested
            self._advance(file, file.size)
            return
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        with self._hub.stream("GET", f"{self._url}/{file.path}", headers=headers) as answer:
            resumed = answer.raise_for_status().status_code == 206
            self._advance(file, start if resumed else 0)
            with open(part, "ab" if resumed else "wb", opener=opener) as out:
                for block in answer.iter_raw():  # as it comes, so that a cut loses nothing
                    out.write(block)
                    self._advance(file, len(block))

    def _advance(self, file: HubFile, count: int) -> None:
        self._done_bytes += count
        self._on_progress(file.path, self._done_bytes, self._total_bytes)


def _describe_error(error: httpx.HTTPError) -> str:
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        reasons = {401: "a token is required", 403: "accept its licence on the hub first",
                   404: "no such repository or revision"}  # fmt: skip
        return f"{code}: {reasons.get(code, error.response.reason_phrase)}"
    return f"no answer ({str(error) or type(error).__name__})"


def _check_space(folder: Path, files: Sequence[HubFile]) -> None:
    make_folder(folder)
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
    if file.sha256:
        return _sha256(path) == file.sha256
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() == file.git_hash


def check_hashes(files: Iterable[tuple[Path, str]], package: str) -> None:
    """Check the SHA-256 of files that a package brings; MissingWeightsError if one differs."""
    for path, expected in files:
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise _damaged_package(path, package, str(error)) from error
        if found != expected:
            problem = f"its SHA-256 is {found[:16]}..., not {expected[:16]}..."
            raise _damaged_package(path, package, problem)


def _damaged_package(path: Path, package: str, problem: str) -> MissingWeightsError:
    return MissingWeightsError(
        f"{path.name} of {package} cannot be used: {problem}",
        hint=format_install(package, options="--force-reinstall --no-deps"),
    )
