"""Folders made searchable, and kept so: only what changed is read again."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anyrig.app.cache import open_shared_cache
from anyrig.app.cluster import ClusterOptions
from anyrig.app.documents import FailedFile, FileOptions, build_limits, open_ocr
from anyrig.app.embedding import (
    EmbeddingOptions,
    find_model,
    format_reference,
    open_vector_cache,
    open_vectors,
)
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    Message,
    StorageBusyError,
    StorageError,
)
from anyrig.estimates import SteadyEstimate
from anyrig.events import NoticeEvent, OnEvent, ProgressEvent, WarningEvent
from anyrig.options import Request, option
from anyrig.results import fields_to_json
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.app.rig import Rig
    from anyrig.documents.index.db import Known
    from anyrig.documents.index.files import FolderReader
    from anyrig.documents.index.progress import IndexProgress
    from anyrig.documents.index.remove import DropSources, DropTexts, RemovalResult
    from anyrig.documents.index.search import Searcher
    from anyrig.documents.index.status import Status
    from anyrig.documents.index.update import IndexChanges
    from anyrig.documents.model import EmbeddingModel

DEFAULT_INDEX = "default"
_PRECISION_CLASSES = ("fp32", "half", "int8")
_LONG_TEXTS: tuple[Literal["windows", "cut"], ...] = ("windows", "cut")


@dataclass(frozen=True, kw_only=True)
class IndexOptions(Request):
    """The index."""

    index: str = option(
        DEFAULT_INDEX, "name of the index; default: `default`, as on the web page", metavar="NAME"
    )


@dataclass(frozen=True, kw_only=True)
class IndexRequest(IndexOptions, EmbeddingOptions, ClusterOptions, FileOptions):
    """Indexing."""

    folders: tuple[Path, ...] = option(
        (), "folders or files; default: all folders of the index", positional=True,
        metavar="FOLDER",
    )  # fmt: skip
    model: str = option(
        "", "embedding model; default: the index's own, or one for the language of the files",
        setting="documents.model", fill=False, metavar="NAME",
    )  # fmt: skip
    retry: bool = option(False, "retry files that could not be read")


@dataclass(frozen=True, kw_only=True)
class IndexStartedEvent(ProgressEvent):
    """The model is chosen, and files are about to be read."""

    index: str
    model: str
    folders: tuple[Path, ...]

    def to_json(self) -> dict[str, Any]:
        folders = [str(folder) for folder in self.folders]
        return {"event": "begin", "index": self.index, "model": self.model, "folders": folders}


@dataclass(frozen=True, kw_only=True)
class IndexProgressEvent(ProgressEvent):
    progress: IndexProgress

    def to_json(self) -> dict[str, Any]:
        return {"event": "progress", **self.progress.to_json()}


@dataclass(frozen=True)
class IndexResult:
    """What a run has changed in an index."""

    index: str
    model: str
    changes: IndexChanges
    warnings: tuple[str, ...]
    wall_s: float
    """With choosing and loading the model, which `changes.wall_s` is without."""

    def to_json(self) -> dict[str, Any]:
        """One object, with the changes in it."""
        own = {"warnings": list(self.warnings), "wall_s": round(self.wall_s, 3)}
        return {"index": self.index, "model": self.model, **fields_to_json(self.changes), **own}


# -- indexing --------------------------------------------------------------------------------------


def index(rig: Rig, request: IndexRequest, on_event: OnEvent) -> IndexResult:
    """Bring an index up to date with its folders. A run that was stopped goes on where it was."""
    stop = threading.Event()
    stop.set()
    (result,) = watch(rig, request, on_event, stop=stop)
    return result


def watch(
    rig: Rig, request: IndexRequest, on_event: OnEvent, *, stop: threading.Event | None = None
) -> Iterator[IndexResult]:
    """Index, and go on with whatever changes until `stop` is set: yields the first run and each
    that changed the index.
    """
    from anyrig.documents.index.files import FolderReader, resolve_folders
    from anyrig.documents.index.update import add_folders, watch_index

    began = time.monotonic()
    path = find_index_file(rig, request.index)
    roots = resolve_folders(request.folders)
    if not roots and not path.is_file():
        raise InvalidInputError(
            "no folder was given", hint="`anyrig index FOLDER` makes an index of it."
        )
    with ExitStack() as stack:
        reader = FolderReader(
            ocr=stack.enter_context(open_ocr(rig, request)), mode=request.ocr,
            limits=build_limits(request), types=request.type, retry=request.retry,
        )  # fmt: skip
        requested = _get_requested_model(rig, request, path)
        request = replace(request, model=requested)
        model, advice = _choose_model(rig, request, path, roots, reader, on_event)
        add_folders(path, roots)
        # Without the cache: the index itself keeps the vectors.
        options = replace(request, no_cache=True)
        vectors = stack.enter_context(open_vectors(rig, options, model, on_event))
        on_event(
            IndexStartedEvent(
                stage="indexing", index=path.stem, model=model.name, folders=request.folders
            )
        )
        reference = format_reference(requested, model)
        wall_s = 0.0
        for changes in watch_index(
            path, roots, vectors, reader, on_progress=_IndexReporter(on_event), stop=stop,
            reference=reference,
        ):  # fmt: skip
            wall_s = changes.wall_s if wall_s else time.monotonic() - began
            warnings = (*filter(None, [advice]), *changes.warnings)
            yield IndexResult(path.stem, model.name, changes, warnings, wall_s)


class _IndexReporter:
    """Reports progress with a steady estimate of the time left."""

    def __init__(self, on_event: OnEvent) -> None:
        self._on_event = on_event
        self._stage = ""
        self._estimate = SteadyEstimate()

    def __call__(self, progress: IndexProgress) -> None:
        if progress.stage != self._stage:
            self._stage, self._estimate = progress.stage, SteadyEstimate()
        left = self._estimate.update(progress.left_s)
        if left is not None:
            progress = replace(progress, left=left)
        self._on_event(
            IndexProgressEvent(
                stage=progress.stage, done=progress.file, total=progress.num_files,
                detail=progress.title, progress=progress,
            )
        )  # fmt: skip


def _choose_model(
    rig: Rig,
    request: IndexRequest,
    path: Path,
    roots: Sequence[bytes],
    reader: FolderReader,
    on_event: OnEvent,
) -> tuple[EmbeddingModel, str]:
    """The requested model, or one for the files' languages; with a warning about languages that it
    was not trained on.
    """
    from anyrig.documents.model import advice, choose_embedding_model

    if request.model != "auto":
        model = find_model(rig, request, {}, on_event)
        # A model for all languages needs no look at the files.
        shares = _sample_languages(path, roots, reader, on_event) if model.languages else {}
    else:
        shares = _sample_languages(path, roots, reader, on_event)
        model, reason = choose_embedding_model(shares)
        on_event(NoticeEvent(reason))
    warning = advice(model, shares)
    if warning:
        on_event(WarningEvent(warning))
    return model, warning


def find_index_model(
    rig: Rig, options: EmbeddingOptions, path: Path, on_event: OnEvent
) -> EmbeddingModel:
    """The requested model, or the one that the index was made with."""
    name = _get_requested_model(rig, options, path)
    return find_model(rig, replace(options, model=name), {}, on_event)


def _get_requested_model(rig: Rig, options: EmbeddingOptions, path: Path) -> str:
    from anyrig.documents.index.status import read_model_name

    return options.model or read_model_name(path) or rig.settings.documents.model or "auto"


def _sample_languages(
    path: Path, roots: Sequence[bytes], reader: FolderReader, on_event: OnEvent
) -> Mapping[str, float]:
    """The languages in the index, and of a few files in folders that are new to it."""
    from anyrig.documents.index.files import sample_languages
    from anyrig.documents.index.status import read_status

    counts: Counter[str] = Counter()
    new = list(roots)
    if path.is_file():
        found = read_status(path)
        counts.update({code: count for code, count in found.languages.items() if code})
        indexed = {os.fsencode(root) for root, count in found.roots if count}
        new = [root for root in roots if root not in indexed]
    if new or not counts:
        on_event(ProgressEvent("detecting languages"))
        counts.update(
            sample_languages(
                new or roots, reader,
                on_pictures=lambda: on_event(
                    ProgressEvent("detecting languages", detail="reading a few pictures")
                ),
            )
        )  # fmt: skip
    return counts


# -- maintenance -----------------------------------------------------------------------------------


def find_index_file(rig: Rig, name: str) -> Path:
    from anyrig.documents.index.db import get_path

    return get_path(rig.folders.indexes, name)


def find_stored_name(rig: Rig, name: str) -> str | None:
    """What an index is called on disk; None if there is none of that name in any case."""
    from anyrig.documents.index.db import find_name

    return find_name(rig.folders.indexes, name)


def get_status(rig: Rig, name: str = DEFAULT_INDEX) -> Status:
    """What an index holds."""
    from anyrig.documents.index.status import read_status

    return read_status(check_index(rig, name))


def check_index(rig: Rig, name: str) -> Path:
    """The file of an index, if there is one of that name."""
    path = find_index_file(rig, name)
    if not path.is_file():
        known = ", ".join(list_names(rig))
        raise InvalidInputError(
            f"there is no index {name!r}",
            hint=f"There are: {known}." if known else "`anyrig index FOLDER` makes one.",
        )
    return path


def list_indexes(rig: Rig) -> tuple[list[Status], list[FailedFile]]:
    """All indexes of this user, and those that cannot be read."""
    from anyrig.documents.index.status import read_status

    found, failed = [], []
    for name in list_names(rig):
        try:
            found.append(read_status(find_index_file(rig, name)))
        except AnyrigError as error:
            failed.append(FailedFile(name, error))
    return found, failed


def remove(rig: Rig, request: IndexRequest, on_event: OnEvent) -> RemovalResult:
    """Remove files or folders from an index for good, and what is cached of them; they stay
    excluded until `include`.
    """
    from anyrig.documents.index.remove import remove_files

    path = find_index_file(rig, request.index)
    close_index(rig, request.index)
    with _open_cache_drops(rig, request, path, on_event) as (drop_texts, drop_sources):
        return remove_files(path, request.folders, drop_texts, drop_sources)


def include(rig: Rig, request: IndexRequest, on_event: OnEvent) -> IndexResult:
    """Include removed files or folders again, and index."""
    from anyrig.documents.index.remove import include_files

    path = find_index_file(rig, request.index)
    if not include_files(path, request.folders):
        raise InvalidInputError(
            f"{request.folders[0]} was not removed from the index {request.index!r}",
            hint="`anyrig index --status` shows what was.",
        )
    return index(rig, replace(request, folders=()), on_event)


def drop(rig: Rig, name: str) -> None:
    """Delete an index with everything in it."""
    from anyrig.documents.index.remove import delete_index

    close_index(rig, name)
    delete_index(find_index_file(rig, name))


def delete_for_good(rig: Rig, request: IndexRequest, on_event: OnEvent) -> RemovalResult:
    """Delete an index with the vectors and pages that are cached of its texts. `StorageBusyError`
    if another process fills it: then nothing was removed.
    """
    from anyrig.documents.index.db import lock_index
    from anyrig.documents.index.remove import RemovalResult, delete_index
    from anyrig.documents.index.status import read_status

    path = check_index(rig, request.index)
    close_index(rig, request.index)
    try:
        with lock_index(path):
            pass
    except StorageError as error:
        raise StorageBusyError(error.message, hint=error.hint) from error
    removed = RemovalResult((), 0, 0, (), ())
    if roots := tuple(root for root, _ in read_status(path).roots):
        removed = remove(rig, replace(request, folders=roots), on_event)
    delete_index(path)
    return removed


@contextmanager
def open_searcher(rig: Rig, name: str) -> Iterator[Searcher]:
    """An index to search; one that is kept open sees what is indexed meanwhile."""
    from anyrig.documents.index.search import Searcher

    path = find_index_file(rig, name)
    # Another file of that name may have taken the place of one that was deleted.
    version = str(path.stat().st_ino if path.is_file() else 0)
    key = f"index {path.stem}"
    with rig.models.borrow(key, lambda: Searcher(path), version=version, counted=False) as searcher:
        yield searcher


def close_index(rig: Rig, name: str) -> None:
    """Close an index that is kept open, before its file is overwritten."""
    rig.models.unload(f"index {find_index_file(rig, name).stem}")


def list_files(rig: Rig, name: str) -> list[tuple[Path, Known]]:
    """The files of an index in the order of their paths, and what is known of each."""
    from anyrig.documents.index.db import list_known, read_index

    known = sorted(read_index(check_index(rig, name), list_known).items())
    return [(Path(os.fsdecode(file)), one) for file, one in known]


def list_names(rig: Rig) -> list[str]:
    from anyrig.documents.index import db

    return db.list_names(rig.folders.indexes)


@contextmanager
def _open_cache_drops(
    rig: Rig, options: EmbeddingOptions, path: Path, on_event: OnEvent
) -> Iterator[tuple[DropTexts, DropSources]]:
    """Delete the cached vectors of texts, however they were made, and the OCR pages of files."""
    from anyrig.documents.ocr.run import KIND as PAGE
    from anyrig.storage.cache import ResultCache

    with open_shared_cache(rig) as cache:
        local = cache if isinstance(cache, ResultCache) else cache.local

        def drop_texts(texts: Sequence[str]) -> int:
            if not texts:
                return 0
            try:
                model = find_index_model(rig, options, path, on_event)
            except AnyrigError as error:
                on_event(WarningEvent(
                    Message(
                        "cached vectors were not deleted, as the model is gone ({problem});"
                        " `anyrig cache prune --kind embedding` deletes all of them",
                        problem=error.message,
                    )
                ))  # fmt: skip
                return 0
            return sum(
                open_vector_cache(cache, model, *marks).forget(texts)
                for marks in product(_PRECISION_CLASSES, _LONG_TEXTS, (False, True))
            )

        def drop_sources(sources: Sequence[str]) -> int:
            count = sum(map(cache.delete_from_source, sources))
            unknown = local.list_keys_without_source(PAGE) if sources else []
            if unknown:
                num_dropped = sum(map(cache.delete, unknown))
                on_event(WarningEvent(
                    f"{pluralize(num_dropped, 'cached OCR page')} of an older version of anyrig"
                    " were deleted too, as it is unknown which files they are of"
                ))  # fmt: skip
            return count + len(unknown)

        try:
            yield drop_texts, drop_sources
        finally:
            local.scrub()
