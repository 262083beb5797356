"""Model weights in a folder: hashed once, downloaded from the model hub, verified, resumed.

`storage/download.py` fetches the files, because huggingface_hub checks sizes only, and begins anew
in each process. Pickles are downloaded only by name, for engines that read them as plain tensors:
loading one may run what is in it. `weights.json` beside the files records where they come from and
at which revision.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.errors import (
    InvalidInputError,
    Message,
    MissingWeightsError,
    OptionRef,
)
from anyrig.install import format_install
from anyrig.storage.download import (
    Downloader,
    DownloadProgress,
    check_space,
    describe_http_error,
)
from anyrig.storage.files import open_atomic, read_json, write_atomic

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)
ORIGIN_FILE = "weights.json"
HASHES_FILE = ".anyrig-hashes.json"
_BLOCK_BYTES = 1 << 20
# What engines read. Other files stay on the hub: pickles, other frameworks, pictures.
DEFAULT_PATTERNS = (
    "*.safetensors", "*.json", "*.txt", "*.model", "*.onnx", "*.wav", "*.jinja", "LICENSE*",
    "*.yaml",
)  # fmt: skip
GITHUB = "github.com/"
GITHUB_API = "https://api.github.com"
GITHUB_FILES = "https://raw.githubusercontent.com"
_REPOSITORY = re.compile(r"[\w-][\w.-]{0,95}/[\w-][\w.-]{0,95}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class WeightSource:
    """Some files of a repository."""

    repository: str
    """`owner/name` on the hub, or `github.com/owner/name`."""
    files: tuple[str, ...] = DEFAULT_PATTERNS
    """Patterns of names or, with a slash, of paths."""
    revision: str = "main"
    """On GitHub a commit."""
    folder: str | None = None
    """Where the files go by their names alone, below the folder of the weights; None keeps their
    paths."""


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
    hashes_file = path.parent / HASHES_FILE
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


def check_tensors(
    folder: Path, files: Sequence[Path], shapes: Mapping[str, Sequence[int]], repository: str
) -> None:
    """Check safetensors files by their headers, before anything is loaded: that all are there and
    whole, and that some tensors have the shapes that `config.json` asks for.

    Args:
        folder: of the weights; `model.safetensors.index.json` in it names the files.
        files: those that are there.
        shapes: by the end of a tensor's name.
        repository: where the right ones are.
    """
    hint = f"Get it again, with the config.json that belongs to it: {repository} has both."
    index = read_json(folder / "model.safetensors.index.json").get("weight_map", {})
    missing = sorted(set(index.values()) - {path.name for path in files})
    if missing:
        raise MissingWeightsError(f"{folder} does not contain {', '.join(missing)}", hint=hint)
    found = {name: (shape, path) for path in files for name, shape in _read_shapes(path, hint)}
    for end, expected in shapes.items():
        name = next((one for one in found if one.endswith(end)), "")
        if not name:
            listed = ", ".join(path.name for path in files)
            raise MissingWeightsError(f"{listed} in {folder} has no tensor {end}", hint=hint)
        shape, path = found[name]
        if list(shape) != list(expected):
            raise MissingWeightsError(
                f"{path}: {name} has the shape {list(shape)}, and config.json asks for"
                f" {list(expected)}",
                hint=hint,
            )


def _read_shapes(path: Path, hint: str) -> list[tuple[str, list[int]]]:
    """The tensors of a safetensors file: eight bytes, the length of a JSON header, and that."""
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header: dict[str, Any] = json.loads(file.read(min(length, size)))
        tensors = {name: one for name, one in header.items() if name != "__metadata__"}
        end = max((one["data_offsets"][1] for one in tensors.values()), default=0)
        shapes = [(name, list(one["shape"])) for name, one in tensors.items()]
    except (ValueError, AttributeError, KeyError, TypeError, IndexError) as error:
        raise MissingWeightsError(f"{path} is not a safetensors file", hint=hint) from error
    if 8 + length + end != size:
        raise MissingWeightsError(
            f"{path} is incomplete: {size:,} of {8 + length + end:,} bytes", hint=hint
        )
    return shapes


def download_weights(
    source: WeightSource,
    folder: Path,
    *,
    endpoint: str = "",
    token: str = "",
    on_progress: DownloadProgress = lambda *_: None,
) -> list[Path]:
    """Download files of a repository to a folder, except those that are there and intact.

    Args:
        source: which files.
        folder: where they go; created if necessary.
        endpoint: of the hub; empty for the default.
        token: for repositories of the hub that require one.
        on_progress: called as data arrives.
    """
    import httpx
    from huggingface_hub.constants import ENDPOINT

    repository = source.repository
    is_on_github = repository.startswith(GITHUB)
    headers = {"Authorization": f"Bearer {token}"} if token and not is_on_github else {}
    base_url = "" if is_on_github else endpoint or ENDPOINT
    try:
        with httpx.Client(
            base_url=base_url, headers=headers, follow_redirects=True, timeout=30
        ) as hub:
            files, url = _list_github(hub, source) if is_on_github else _list_hub(hub, source)
            if not files:
                raise InvalidInputError(
                    f"{repository} contains none of {', '.join(source.files)}",
                    hint="Is it the right repository?",
                )
            targets = [folder / _place(file.path, source.folder) for file in files]
            sizes = [file.size for file in files]
            check_space(folder, zip(targets, sizes, strict=True))
            download = Downloader(hub, sum(sizes), on_progress)
            for file, target in zip(files, targets, strict=True):
                is_intact = partial(_is_intact, file=file)
                download.fetch(file.path, f"{url}/{file.path}", target, file.size, is_intact)
    except httpx.HTTPError as error:
        own = "its files" if source.files == DEFAULT_PATTERNS else ", ".join(source.files)
        raise MissingWeightsError(
            f"files of {repository} could not be downloaded: {describe_http_error(error)}",
            hint=f"Run it again to resume, or copy {own} to {folder / (source.folder or '')}.",
        ) from error
    known = read_json(folder / ORIGIN_FILE)
    names = [target.relative_to(folder).as_posix() for target in targets]
    hashes = [file.sha256 or _sha256(target) for file, target in zip(files, targets, strict=True)]
    if source.folder is None:  # the weights themselves; other files come beside them
        known = {"repository": repository, "revision": url.rpartition("/")[2]}
    known["files"] = known.get("files", {}) | dict(zip(names, sizes, strict=True))
    known["sha256"] = known.get("sha256", {}) | dict(zip(names, hashes, strict=True))
    write_atomic(folder / ORIGIN_FILE, json.dumps(known, indent=1))
    return targets


def _list_hub(hub: httpx.Client, source: WeightSource) -> tuple[list[HubFile], str]:
    """The files of a source, and the address that their paths follow."""
    answer = hub.get(f"/api/models/{source.repository}/revision/{source.revision}?blobs=true")
    data = answer.raise_for_status().json()
    files = _parse_listing(data["siblings"], source.files)
    return files, f"/{source.repository}/resolve/{data['sha']}"


def _list_github(client: httpx.Client, source: WeightSource) -> tuple[list[HubFile], str]:
    """The same on GitHub."""
    name, commit = source.repository.removeprefix(GITHUB), source.revision
    answer = client.get(f"{GITHUB_API}/repos/{name}/git/trees/{commit}?recursive=1")
    rows = [
        {"rfilename": row["path"], "size": row["size"], "blobId": row["sha"]}
        for row in answer.raise_for_status().json()["tree"]
        if row["type"] == "blob"
    ]
    return _parse_listing(rows, source.files), f"{GITHUB_FILES}/{name}/{commit}"


def _place(path: str, folder: str | None) -> str:
    return path if folder is None else (PurePosixPath(folder) / PurePosixPath(path).name).as_posix()


def copy_weights(
    source: Path, folder: Path, *, on_progress: DownloadProgress = lambda *_: None
) -> list[Path]:
    """Copy weights from a folder, for a machine without a network.

    If anyrig downloaded that folder, the files are compared with the hashes it wrote there.
    """
    found = [
        path
        for path in sorted(source.rglob("*"))
        if path.is_file() and not path.name.startswith(".") and path.suffix != ".part"
    ]
    sizes = {path: path.stat().st_size for path in found}
    check_space(folder, [(folder / path.relative_to(source), size) for path, size in sizes.items()])
    hashes = read_json(source / ORIGIN_FILE).get("sha256", {})
    done_bytes, written = 0, []
    for path in found:
        name = path.relative_to(source).as_posix()
        digest, target = hashlib.sha256(), folder / name
        with path.open("rb") as file, open_atomic(target) as out:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
                out.write(block)
                done_bytes += len(block)
                on_progress(name, done_bytes, sum(sizes.values()))
            if digest.hexdigest() != hashes.get(name, digest.hexdigest()):
                raise MissingWeightsError(
                    f"{path} is damaged: its SHA-256 is not the one that was downloaded",
                    hint="Copy it again from where it was downloaded.",
                )
        written.append(target)
    return written


def _parse_listing(rows: Iterable[dict[str, Any]], patterns: Sequence[str]) -> list[HubFile]:
    files = []
    for row in rows:
        path = PurePosixPath(row["rfilename"])
        if path.is_absolute() or ".." in path.parts or {"\\", ":"} & set(row["rfilename"]):
            raise InvalidInputError(
                f"the hub lists a file outside of its folder: {str(path)!r}", hint="Do not use it."
            )
        names = [str(path) if "/" in pattern else path.name for pattern in patterns]
        if any(map(fnmatch, names, patterns)):
            sha256 = (row.get("lfs") or {}).get("sha256", "")
            files.append(HubFile(str(path), int(row["size"]), row["blobId"], sha256))
    return files


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
