"""Folders into the file of an index, and out of it.

done = index_folders(path, resolve_folders([Path("post")]), vectors, build_ways())
"""

from __future__ import annotations

import os
import shlex
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.documents.index import database, forget, nearest, rows
from anyrig.documents.index.database import BESIDE, IndexFile, alone
from anyrig.documents.index.opened import Reader, language_of
from anyrig.documents.index.plan import WITHOUT, Found, Look, whole
from anyrig.documents.index.progress import Pace, Tell
from anyrig.documents.index.search import Searcher
from anyrig.documents.index.snapshot import GRAPH, matrix_of, text_ids
from anyrig.documents.index.update import Indexed, Ways, update
from anyrig.errors import InvalidInputError
from anyrig.text.document import Document
from anyrig.text.files import format_of_name
from anyrig.text.folder import Skipped
from anyrig.text.formats.picture import FORMATS as PICTURES

if TYPE_CHECKING:
    from anyrig.documents.protocol import Vectors
    from anyrig.documents.reading import Mode as OcrMode
    from anyrig.documents.reading import Reads, Unread
    from anyrig.text.formats.limits import Limits

WATCH_S = 2.0
_SAMPLES, _PICTURES, _SAMPLE_BYTES, _SAMPLE_S = 24, 3, 5_000_000, 5.0
"""What languages are told by: files, pictures where there is nothing else, seconds for each."""


def build_ways(
    *,
    ocr: Reads | None = None,
    mode: OcrMode = "auto",
    limits: Limits | None = None,
    types: Sequence[str] = (),
    retry: bool = False,
) -> Ways:
    """How files are found and read.

    Args:
        ocr: reads pictures; None leaves their pages out, with a warning.
        mode: when pictures are read.
        limits: how much a file may ask of the machine.
        types: formats or endings; all when empty.
        retry: try again what could not be read.
    """
    from anyrig.documents.reading import read_all
    from anyrig.text.formats.limits import Limits

    within = limits or Limits()

    def read(paths: Iterable[Path]) -> Iterator[Document | Unread]:
        return read_all(paths, ocr=ocr, mode=mode, limits=within)

    def glance(paths: Iterable[Path]) -> Iterator[Document | Unread]:
        return read_all(paths, mode="never", limits=within)

    how = WITHOUT if ocr is None and mode != "never" else mode
    return Ways(build_look(types), read, how, within.file_bytes, retry, glance)


def build_look(types: Sequence[str] = ()) -> Look:
    """Lists the files of a folder. One that is missing, empty or fails to list is unseen: a drive
    that is not mounted looks like that.
    """
    from anyrig.text.folder import find, parse_types

    parse_types(types)  # so that a wrong one is an error before the index is changed

    def look(root: Path) -> Found:
        if reason := _describe_absence(root):
            return Found((), (Skipped(root, reason),))
        found = find(root, types=types)
        others = tuple(one.path for one in found.skipped)
        outside = tuple(one.path for one in found.outside)
        return Found(
            found.files, found.unreadable, partly=bool(types), others=others, outside=outside
        )

    return look


def _describe_absence(root: Path) -> str:
    """Why nothing can be said about the files of a folder; empty if it has any, or is a file."""
    try:
        if not stat.S_ISDIR(os.stat(root).st_mode):
            return ""
        with os.scandir(root) as entries:
            return "" if any(True for _ in entries) else "it is empty"
    except OSError as error:
        return error.strerror or str(error)


def resolve_folders(named: Sequence[Path]) -> list[bytes]:
    """Folders and files that exist, as the index names them."""
    for place in named:
        if not place.expanduser().exists():
            raise InvalidInputError(f"no such file or folder: {place}", hint="Check the path.")
    return list(dict.fromkeys(whole(place) for place in named))


def sample_languages(
    roots: Sequence[bytes], how: Ways, *, tell: Callable[[str], None] | None = None
) -> Counter[str]:
    """The languages of a few files, spread over the folders: what a model is chosen by.

    Files with text of their own tell it. Where there are none, a few pictures are read: that takes
    longer, so `tell` is told. Either ends after some seconds with what is known by then.
    """
    found = [file for root in roots for file in how.look(Path(os.fsdecode(root))).files]
    small = [file for file in found if _size(file) <= _SAMPLE_BYTES]
    texts = [file for file in small if format_of_name(file.name) not in PICTURES]
    tally = _tally(_spread(texts, _SAMPLES), how.glance or how.read)
    if not tally and small:
        if tell:
            tell("reading a few pictures to detect their language")
        pictures = [file for file in small if file not in texts]  # of one page, most of them
        tally = _tally(_spread(pictures or small, _PICTURES), how.read)
    return tally


def _spread(files: Sequence[Path], most: int) -> Sequence[Path]:
    return files[:: max(1, len(files) // most)][:most]


def _tally(files: Sequence[Path], read: Reader) -> Counter[str]:
    tally: Counter[str] = Counter()
    end = time.monotonic() + _SAMPLE_S
    with closing(_each(read, files)) as found:
        for one in found:
            if isinstance(one, Document):
                tally[language_of(one)] += 1
            if time.monotonic() > end:
                break
    del tally[""]
    return tally


def _each(read: Reader, files: Sequence[Path]) -> Generator[Document | Unread, None, None]:
    """What a reader finds; ending early ends its processes."""
    yield from read(files)


def read_model_name(path: Path) -> str:
    """The name of the model that an index was made with; empty for none."""
    if not path.is_file():
        return ""
    with Searcher(path) as searcher:
        return searcher.model


def index_folders(
    path: Path,
    roots: Sequence[bytes],
    vectors: Vectors,
    how: Ways,
    *,
    tell: Tell | None = None,
    threshold: int = nearest.THRESHOLD,
    reference: str = "",
) -> Indexed:
    """Bring an index to what lies in the folders; without folders, in all that it knows.

    Args:
        path: of the index; it is made.
        roots: as `resolve_folders` gives them.
        vectors: another model than before has every passage embedded anew.
        how: files are found and read.
        tell: receives the progress.
        threshold: passages above which a graph is made.
        reference: what the model is found by again, where its name does not do it.
    """
    stop = threading.Event()
    stop.set()
    (done,) = watch_folders(
        path, roots, vectors, how, tell=tell, stop=stop, threshold=threshold, reference=reference
    )
    return done


def watch_folders(
    path: Path,
    roots: Sequence[bytes],
    vectors: Vectors,
    how: Ways,
    *,
    tell: Tell | None = None,
    stop: threading.Event | None = None,
    every_s: float = WATCH_S,
    threshold: int = nearest.THRESHOLD,
    reference: str = "",
) -> Iterator[Indexed]:
    """Index, and go on with whatever changes: yields the first round and each that changed it.

    A changed file is read when two looks in a row have found it the same.

    Args:
        path: as for `index_folders`.
        roots: as for `index_folders`.
        vectors: as for `index_folders`.
        how: as for `index_folders`.
        tell: as for `index_folders`.
        stop: ends it between two rounds.
        every_s: between two looks.
        threshold: as for `index_folders`.
        reference: as for `index_folders`.
    """
    ended = stop or threading.Event()
    with alone(path), IndexFile(path) as file:
        if file.unclean:
            file.purge()
        chosen = _register_roots(file, roots)
        done = update(file, chosen, vectors, how, tell=tell, reference=reference)
        _update_graph(file, path, threshold, tell)
        yield done
        while not ended.wait(every_s):
            done = update(
                file, chosen, vectors, how, tell=tell, wait_for=done.found, reference=reference
            )
            if done.changed or done.failed:
                _update_graph(file, path, threshold, tell)
                yield done


def remove_files(
    path: Path,
    named: Sequence[Path],
    drop_cached: forget.Forget,
    drop_sources: forget.ForgetSources = lambda _: 0,
) -> forget.Removed:
    """Remove files or folders from an index for good; see `forget.remove`."""
    _check_exists(path)
    others = [one for one in path.parent.glob(f"*{database.ENDING}") if one != path]
    with IndexFile(path) as file:
        return forget.remove(
            file,
            _resolve_known(file, named),
            forget=drop_cached,
            forget_sources=drop_sources,
            others=others,
        )


def include_files(path: Path, named: Sequence[Path]) -> int:
    """Let removed files and folders be indexed again; returns how many of them were excluded."""
    _check_exists(path)
    with IndexFile(path) as file:
        return forget.include(file, _resolve_known(file, named))


def add_folders(path: Path, roots: Sequence[bytes]) -> None:
    """Add folders to an index before the long work, so that one that is stopped early has them."""
    with alone(path), IndexFile(path) as file:
        _register_roots(file, roots)


def delete_index(path: Path) -> None:
    """Delete an index with everything in it."""
    _check_exists(path)
    with alone(path):
        for ending in ("", "-wal", "-shm", "-journal", *BESIDE):
            path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)


def _resolve_known(file: IndexFile, named: Sequence[Path]) -> list[bytes]:
    """Places as the index names them: some were reached through a link within a folder."""
    known = [*file.read(rows.known), *file.read(rows.excluded)]
    found = []
    for place in named:
        plain = os.fsencode(os.path.abspath(place.expanduser()))
        linked = any(rows.is_under(path, [plain]) for path in known)
        found.append(plain if linked else whole(place))
    return found


def _check_exists(path: Path) -> None:
    if not path.is_file():
        raise InvalidInputError(
            f"there is no index {path.stem!r}", hint="`anyrig index --list` lists them."
        )


def _register_roots(file: IndexFile, roots: Sequence[bytes]) -> list[bytes]:
    """The folders to look through; new ones are added."""
    known = file.read(rows.roots)
    out = file.read(rows.excluded)
    for root in roots:
        if rows.is_under(root, out):
            name = os.fsdecode(root)
            raise InvalidInputError(
                f"{name} was removed from the index and is excluded",
                hint=f"`anyrig index --include {shlex.quote(name)}` includes it again.",
            )
        if not rows.is_under(root, known):
            file.write(lambda c, root=root: rows.add_root(c, root))  # type: ignore[misc]
    # A folder of the index inside a given one may be missing by itself.
    inner = [root for root in known if root not in roots and rows.is_under(root, roots)]
    chosen = [*roots, *inner] or known
    if not chosen:
        raise InvalidInputError(
            "the index has no folder yet", hint="`anyrig index FOLDER` adds one."
        )
    return chosen


def _update_graph(file: IndexFile, path: Path, threshold: int, tell: Tell | None) -> None:
    """Build or extend the graph of an index with many passages."""
    ids = file.read(text_ids)
    beside = path.with_name(f"{path.name}{GRAPH}")
    if len(ids) <= threshold:
        beside.unlink(missing_ok=True)
        return
    fingerprint, _, dimension = file.read(rows.model)
    removed = file.read(lambda c: database.get(c, "removed"))
    before = nearest.load(beside)
    if before is not None and not nearest.stale(before, ids, fingerprint):
        num_lacking = len(set(ids.tolist()) - set(before.ids.tolist()))
        if not num_lacking:
            return
    pace = Pace("linking", len(ids) - (len(before.ids) if before is not None else 0))
    done = 0

    def linked(count: int, _: int) -> None:
        nonlocal done
        for _ in range(count - done):
            pace.add(passages=1)
        done = count
        if tell:
            tell(pace.now)

    graph = nearest.built(
        ids, lambda some: file.read(lambda c: matrix_of(c, some, dimension)), fingerprint,
        dimension, before=before, tell=linked,
    )  # fmt: skip
    if graph is None:
        return
    nearest.save(graph, beside)
    if file.read(lambda c: database.get(c, "removed")) != removed:
        # Something was removed for good meanwhile: its vector may be in what was just written.
        beside.unlink(missing_ok=True)
        _update_graph(file, path, threshold, tell)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return _SAMPLE_BYTES + 1
