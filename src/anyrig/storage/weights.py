"""Weights in a folder: hashed once, fetched from the model hub, checked, gone on with when cut off.

A file is fetched into `NAME.part`, goes on from there the next time, is hashed against what the hub
says of it, and only then gets its name. Pickles are not fetched: loading one runs what is in it.
`weights.json` beside the files says where they come from and at which revision.
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
from anyrig.storage import atomic
from anyrig.units import format_bytes

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)
ORIGIN = "weights.json"
_HASHES = ".anyrig-hashes.json"
_PART = ".part"
_BLOCK = 1 << 20
# What engines read. Anything else in a repository stays there: pickles, other frameworks, pictures.
WANTED = (
    "*.safetensors", "*.json", "*.txt", "*.model", "*.onnx", "*.wav", "*.jinja", "LICENSE*",
    "*.yaml",
)  # fmt: skip
Tell = Callable[[str, int, int], None]
"""Told a file's name, how many bytes of all are there, and how many there are."""


@dataclass(frozen=True)
class Remote:
    """A file on the hub."""

    path: str
    size: int
    digest: str
    """As the hub has it: SHA-256 of a large file, Git's own hash of a small one."""
    large: bool


def fingerprint(paths: Iterable[Path]) -> str:
    """One hash for some files: of their names and of what is in them."""
    whole = hashlib.sha256()
    for path in sorted(paths):
        whole.update(f"{path.name}\0{file_hash(path)}\n".encode())
    return whole.hexdigest()


def file_hash(path: Path) -> str:
    """A file's SHA-256, remembered beside it for as long as its size and time stay the same."""
    state = path.stat()
    mark = f"{state.st_size} {state.st_mtime_ns}"
    book = path.parent / _HASHES
    known = _json(book)
    entry = known.get(path.name)
    if isinstance(entry, list) and len(entry) == 2 and entry[0] == mark:
        return str(entry[1])
    found = _sha256(path)
    try:
        atomic.write_text(book, json.dumps({**known, path.name: [mark, found]}, indent=1))
    except OSError:
        log.debug("%s cannot be written: the hash is computed anew each time", book)
    return found


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _sha256(path: Path) -> str:
    whole = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            whole.update(block)
    return whole.hexdigest()


def missing(
    engine: str, folder: Path | None, how: str, files: Sequence[str]
) -> MissingWeightsError:
    """The error for weights that are not there, with the folder to fill."""
    where = f" in {folder}" if folder else ""
    return MissingWeightsError(
        f"{engine} has no weights{where}: {', '.join(files)} wanted",
        hint=f"{how} Or name a folder that holds them with --model.",
    )


# ---------------------------------------------------------------- fetching


def fetch(
    repository: str,
    folder: Path,
    *,
    endpoint: str = "",
    revision: str = "main",
    token: str = "",
    tell: Tell | None = None,
    wanted: Sequence[str] = WANTED,
) -> list[Path]:
    """A repository's files, in a folder; those that are there and whole are not fetched again.

    Args:
        repository: `owner/name` on the hub.
        folder: where they go; made if need be.
        endpoint: of the hub; the usual one when empty.
        revision: a branch, a tag or a commit.
        token: for repositories that ask for one.
        tell: is told how far it is.
        wanted: which files, by pattern.
    """
    import httpx

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    base = endpoint or _usual_endpoint()
    try:
        with httpx.Client(base_url=base, headers=headers, follow_redirects=True, timeout=30) as hub:
            commit = _commit(hub, repository, revision)
            files = [f for f in _listed(hub, repository, commit) if _is_wanted(f.path, wanted)]
            _room(folder, files)
            progress = _Progress(files, tell)
            paths = [_fetched(hub, repository, commit, folder, f, progress) for f in files]
    except httpx.HTTPError as error:
        raise MissingWeightsError(
            f"the weights of {repository} could not be fetched: {_said(error)}",
            hint=f"What came is kept: run it again, or fill {folder} with the repository's "
            "files by other means.",
        ) from error
    if not files:
        raise InvalidInputError(
            f"{repository} holds nothing that can be used", hint="Is it the right repository?"
        )
    origin = {
        "repository": repository,
        "revision": commit,
        "files": {f.path: f.size for f in files},
    }
    atomic.write_text(folder / ORIGIN, json.dumps(origin, indent=1))
    return paths


def _usual_endpoint() -> str:
    from huggingface_hub.constants import ENDPOINT

    return str(ENDPOINT)


def _said(error: httpx.HTTPError) -> str:
    import httpx

    if isinstance(error, httpx.HTTPStatusError):
        code = error.response.status_code
        meant = {401: "it asks for a token", 403: "its licence must be accepted on the hub first",
                 404: "there is no such repository or revision"}  # fmt: skip
        return f"{code}: {meant.get(code, error.response.reason_phrase)}"
    return f"no answer ({error})" if str(error) else f"no answer ({type(error).__name__})"


def _commit(hub: httpx.Client, repository: str, revision: str) -> str:
    answer = hub.get(f"/api/models/{repository}/revision/{revision}").raise_for_status()
    return str(answer.json()["sha"])


def _listed(hub: httpx.Client, repository: str, commit: str) -> Iterator[Remote]:
    url = f"/api/models/{repository}/tree/{commit}?recursive=true"
    while url:
        answer = hub.get(url).raise_for_status()
        for row in answer.json():
            if row.get("type") == "file":
                large = row.get("lfs")
                digest = large["oid"] if large else row["oid"]
                yield Remote(str(row["path"]), int(row["size"]), str(digest), bool(large))
        url = answer.links.get("next", {}).get("url", "")


def _is_wanted(path: str, wanted: Sequence[str]) -> bool:
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts or "\\" in path or ":" in path:
        raise InvalidInputError(
            f"the hub lists a file {path!r} outside its folder", hint="Do not use it."
        )
    return any(fnmatch(parts[-1], pattern) for pattern in wanted)


def _room(folder: Path, files: Sequence[Remote]) -> None:
    import shutil

    folder.mkdir(parents=True, exist_ok=True)
    asked = sum(f.size for f in files if not (folder / f.path).exists())
    free = shutil.disk_usage(folder).free
    if asked > free:
        raise StorageError(
            f"the weights take {format_bytes(asked)} and {folder} has {format_bytes(free)} left",
            hint="Make room, or name another folder.",
        )


class _Progress:
    def __init__(self, files: Sequence[Remote], tell: Tell | None) -> None:
        self._tell, self._total, self._done = tell, sum(f.size for f in files), 0

    def add(self, name: str, count: int) -> None:
        self._done += count
        if self._tell is not None:
            self._tell(name, self._done, self._total)


def _fetched(
    hub: httpx.Client, repository: str, commit: str, folder: Path, file: Remote, told: _Progress
) -> Path:
    path = folder / file.path
    if path.is_file() and _whole(path, file):
        told.add(file.path, file.size)
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + _PART)
    for attempt in range(2):
        _download(hub, f"/{repository}/resolve/{commit}/{file.path}", part, file, told)
        if _whole(part, file):
            os.replace(part, path)
            return path
        part.unlink()  # a part of something else, or damaged on its way: from the beginning
        told.add(file.path, -file.size)
        log.warning("%s came damaged%s", file.path, "; once more" if not attempt else "")
    raise MissingWeightsError(
        f"{file.path} of {repository} is not what the hub says it is, twice",
        hint="Try again later, or fetch it by other means: something on the way changes it.",
    )


def _download(hub: httpx.Client, url: str, part: Path, file: Remote, told: _Progress) -> None:
    there = part.stat().st_size if part.exists() else 0
    if there >= file.size:
        told.add(file.path, file.size)
        return
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={there}-"} if there else {})
    with hub.stream("GET", url, headers=headers) as answer:
        answer.raise_for_status()
        goes_on = answer.status_code == 206
        told.add(file.path, there if goes_on else 0)
        with part.open("ab" if goes_on else "wb") as out:
            for block in answer.iter_raw():  # as it comes, so that a cut loses nothing
                out.write(block)
                told.add(file.path, len(block))


def _whole(path: Path, file: Remote) -> bool:
    if path.stat().st_size != file.size:
        return False
    if file.large:
        return _sha256(path) == file.digest
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest() == file.digest
