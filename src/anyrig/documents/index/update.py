"""Folders into an index: what changed is read, split, embedded and written.

    done = update_index(path, resolve_folders([Path("letters")]), embedder, FolderReader())

Files are read ahead by a thread, which collects some two thousand passages; those are embedded in
one go while the files before them are written, each in one transaction. Whatever kills the process:
the next run finds what is missing, and nothing is there twice.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np  # noqa: TID253 - vectors are what it writes

from anyrig.documents.index import db
from anyrig.documents.index.content import Content
from anyrig.documents.index.db import FailureReason, IndexDatabase, Known, Stamp, UnreadFile
from anyrig.documents.index.plan import Unseen, UpdatePlan, build_plan
from anyrig.documents.index.progress import FileCounter, OnProgress, StepCounter
from anyrig.documents.index.vectors import VectorWriter, erase_rows, normalize_rows
from anyrig.documents.reading import digest_file
from anyrig.errors import (
    AnyrigError,
    InvalidInputError,
    Message,
    MissingOcrError,
    OutOfMemoryError,
    WorkError,
)
from anyrig.results import in_json
from anyrig.text.folder import not_followed
from anyrig.units import pluralize

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anyrig.documents.index.files import FolderReader
    from anyrig.documents.protocol import Vectors

    Matrix = NDArray[np.float32]

T = TypeVar("T")
WATCH_S = 2.0
CHUNK_PASSAGES = 2_000
_CHUNK_S = 5.0
"""How long files are collected for a chunk at most, so that slow ones are not lost by a kill."""
_AHEAD = 2
"""Chunks that are read while others are embedded and written."""
_MAX_BROKEN = 20
"""Texts or files in a row that cannot be embedded: then it is not their fault."""
_REPORT_S = 0.2


@dataclass
class IndexChanges:
    """What a run has done."""

    num_new: int = field(default=0, metadata=in_json("new"))
    num_changed: int = field(default=0, metadata=in_json("changed"))
    num_moved: int = field(default=0, metadata=in_json("moved"))
    """New paths of content that was there already."""
    num_same: int = field(default=0, metadata=in_json("same"))
    num_gone: int = field(default=0, metadata=in_json("gone"))
    num_excluded: int = field(default=0, metadata=in_json("excluded"))
    num_passages: int = field(default=0, metadata=in_json("passages"))
    """Of the new and changed files."""
    num_embedded: int = field(default=0, metadata=in_json("embedded"))
    """Texts that the model was asked for."""
    failed: list[UnreadFile] = field(default_factory=list)
    old_failed: list[UnreadFile] = field(default_factory=list, metadata=in_json("failed_before"))
    warnings: list[str] = field(default_factory=list)
    others: tuple[Path, ...] = field(default=(), metadata=in_json("other_kinds"))
    """Files of kinds that are not read."""
    wall_s: float = 0.0
    found: dict[bytes, Stamp] = field(default_factory=dict, repr=False, metadata=in_json(omit=True))
    """All files of the folders as they were seen."""

    @property
    def any(self) -> bool:
        """Whether the index is another than before."""
        return bool(self.num_new or self.num_changed or self.num_moved or self.num_gone)


def update_index(
    path: Path,
    roots: Sequence[bytes],
    vectors: Vectors,
    reader: FolderReader,
    *,
    on_progress: OnProgress | None = None,
    reference: str = "",
) -> IndexChanges:
    """Bring an index to what lies in the folders; without folders, in all that it knows.

    Args:
        path: of the index; it is made.
        roots: as `resolve_folders` gives them.
        vectors: another model than before has every passage embedded again.
        reader: finds and reads files.
        on_progress: receives the progress.
        reference: what the model is found by again, where its name does not do it.
    """
    stop = threading.Event()
    stop.set()
    (done,) = watch_index(
        path, roots, vectors, reader, on_progress=on_progress, stop=stop, reference=reference
    )
    return done


def watch_index(
    path: Path,
    roots: Sequence[bytes],
    vectors: Vectors,
    reader: FolderReader,
    *,
    on_progress: OnProgress | None = None,
    stop: threading.Event | None = None,
    interval_s: float = WATCH_S,
    reference: str = "",
) -> Iterator[IndexChanges]:
    """Index, and go on with whatever changes until `stop` is set: yields the first round and each
    that changed it. A changed file is read when two looks in a row have found it the same.
    """
    ended = stop or threading.Event()
    with db.lock_index(path), IndexDatabase(path) as index:
        if index.is_unclean:
            index.purge()
        chosen = _register_roots(index, roots)
        _set_model(index, vectors, reference)
        done: IndexChanges | None = None
        while done is None or not ended.wait(interval_s):
            is_first, before = done is None, done.found if done is not None else None
            plan = build_plan(
                chosen, reader.list_files, index.read(db.list_known),
                index.read(db.list_excluded), how=reader.how, retry=reader.retry, wait_for=before,
            )  # fmt: skip
            done = _Update(index, vectors, reader, plan, on_progress).run()
            if is_first or done.any or done.failed:
                yield done


def add_folders(path: Path, roots: Sequence[bytes]) -> None:
    """Add folders to an index before the long work, so that one that is stopped early has them."""
    with db.lock_index(path), IndexDatabase(path) as index:
        _register_roots(index, roots)


def _register_roots(index: IndexDatabase, roots: Sequence[bytes]) -> list[bytes]:
    """The folders to look through; new ones are added."""
    known = index.read(db.list_roots)
    excluded = index.read(db.list_excluded)
    for root in roots:
        if db.is_under(root, excluded):
            name = os.fsdecode(root)
            raise InvalidInputError(
                f"{name} was removed from the index and is excluded",
                hint=f"`anyrig index --include {shlex.quote(name)}` includes it again.",
            )
        if not db.is_under(root, known):
            index.write(lambda c, root=root: db.add_root(c, root))  # type: ignore[misc]
    # A folder of the index inside a given one may be missing by itself.
    inner = [root for root in known if root not in roots and db.is_under(root, roots)]
    chosen = [*roots, *inner] or known
    if not chosen:
        raise InvalidInputError(
            "the index has no folder yet", hint="`anyrig index FOLDER` adds one."
        )
    return chosen


def _set_model(index: IndexDatabase, vectors: Vectors, reference: str) -> None:
    model = vectors.model
    name = reference or model.name
    if index.read(db.read_model)[:2] != (model.fingerprint, name):
        index.write(lambda c: db.set_model(c, model.fingerprint, name, model.dimension))


@dataclass
class _PendingFile:
    """A file on its way: read, and waiting for vectors."""

    stamp: Stamp
    digest: str = ""
    content: Content | None = None
    """None where the index has this content already."""
    known: dict[str, Matrix] = field(default_factory=dict)
    """Vectors of passages that it had before."""
    error: AnyrigError | None = None

    @property
    def texts(self) -> list[str]:
        passages = self.content.passages if self.content else ()
        return [one.body for one in passages if one.body not in self.known]


@dataclass
class _FileChunk:
    """Files that are embedded together."""

    files: list[_PendingFile] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return list(dict.fromkeys(text for file in self.files for text in file.texts))


class _Stopped(Exception):
    """The run is over, and a thread of it should end."""


class _Update:
    """One bringing up to date."""

    def __init__(
        self,
        index: IndexDatabase,
        vectors: Vectors,
        reader: FolderReader,
        plan: UpdatePlan,
        on_progress: OnProgress | None,
    ) -> None:
        self.done = IndexChanges(
            num_same=plan.num_same,
            num_excluded=plan.num_excluded,
            found=plan.found,
            old_failed=[_to_unread_file(one) for one in plan.old_errors],
            others=plan.others,
            warnings=[
                *(_describe_unseen(one, index.path.stem) for one in plan.unseen),
                *not_followed(plan.outside),
            ],
        )
        self._index, self._vectors, self._reader, self._plan = index, vectors, reader, plan
        self._on_progress = on_progress or (lambda _: None)
        self._counter = FileCounter(plan.stamps)
        self._stopped = threading.Event()
        self._num_broken = 0

    def run(self) -> IndexChanges:
        start, plan, index = time.monotonic(), self._plan, self._index
        is_incomplete = bool(index.read(lambda c: db.get_meta(c, db.INCOMPLETE)))
        self._before = index.read(db.list_known) if plan.stamps else {}
        stamps = self._leave_unchanged(plan.stamps)
        if stamps or plan.gone or is_incomplete:
            self._ids = _FreeIds(index)
            self._writer = index.read(lambda c: VectorWriter(c, index.path))
            complete = False
            try:
                if is_incomplete:
                    self._reembed()
                if stamps:
                    index.write(lambda c: db.set_pending(c, len(stamps), plan.seen))
                    self._add(stamps)
                self._drop(plan.gone)
                complete = True
            finally:
                self._writer.close(complete=complete)
        if index.read(db.count_pending) or stamps:
            index.write(db.clear_pending)
        self.done.wall_s = time.monotonic() - start
        return self.done

    def _leave_unchanged(self, stamps: Sequence[Stamp]) -> list[Stamp]:
        """Those of the files that have to be read: not what has its size, its time and its bytes
        still, and was changed too shortly before the last look at it to be sure.
        """
        unchanged = []
        for stamp in stamps:
            before = self._before.get(stamp.path)
            if before is None or before.stamp != stamp or before.content is None:
                continue
            with suppress(OSError):  # reported when it is read
                if before.digest == self._digest(stamp):
                    unchanged.append(stamp)
        if unchanged:
            self._index.write(lambda c: db.put_seen(c, unchanged, self._plan.seen))
        for stamp in unchanged:
            self._counter.read(stamp, 0)
            self._counter.add_written(stamp)
        self.done.num_same += len(unchanged)
        same = set(unchanged)
        return [stamp for stamp in stamps if stamp not in same]

    def _digest(self, stamp: Stamp) -> str:
        """Of a file's bytes, and of the way they are read."""
        return f"{_digest(stamp, self._reader.max_bytes)} {self._reader.how}"

    # -- embedding -----------------------------------------------------------------------------

    def _reembed(self) -> None:
        """Passages without a vector get one: after a change of the model."""
        steps = StepCounter("embedding", self._index.read(db.count_missing_vectors))
        after = 0
        while some := self._index.read(
            lambda c, after=after: db.list_without_vector(c, after, CHUNK_PASSAGES)  # type: ignore[misc]
        ):
            after = some[-1][0]
            pairs = self._embed_each(some)

            def work(connection: sqlite3.Connection, pairs=pairs) -> None:  # type: ignore[no-untyped-def]
                written = db.put_vectors(connection, pairs)
                self._write_vectors([id for id, _ in written], [row for _, row in written])

            self._index.write(work)
            self.done.num_embedded += len(pairs)
            self._on_progress(steps.add(len(some), passages=len(pairs)))
        if not self._index.read(db.count_missing_vectors):
            self._index.write(lambda c: db.set_meta(c, db.INCOMPLETE, ""))

    def _embed_each(self, some: Sequence[tuple[int, str]]) -> list[tuple[int, Matrix]]:
        """Vectors of numbered texts; one that gets none costs itself alone, unless many in a row
        get none.
        """
        try:
            matrix = self._embed([body for _, body in some])
        except (WorkError, OutOfMemoryError) as error:
            if len(some) > 1:
                half = len(some) // 2
                return self._embed_each(some[:half]) + self._embed_each(some[half:])
            self._count_broken(error)
            self.done.warnings.append(
                Message("a passage has no vector: {problem}", problem=error.message)
            )
            return []
        self._num_broken = 0
        return [(id, row) for (id, _), row in zip(some, matrix, strict=True)]

    def _embed(self, texts: Sequence[str]) -> Matrix:
        model = self._vectors.model
        blocks = [np.zeros((0, model.dimension), np.float32)]
        for block in self._vectors.embed(texts):
            if self._stopped.is_set():
                raise _Stopped
            blocks.append(block)
            self._counter.num_embedded += len(block)
        matrix = np.concatenate(blocks)
        return normalize_rows(matrix, model)

    def _count_broken(self, error: AnyrigError) -> None:
        """Raise the error if too many in a row cannot be embedded."""
        self._num_broken += 1
        if self._num_broken >= _MAX_BROKEN:
            raise error

    # -- new and changed files -----------------------------------------------------------------

    def _add(self, stamps: Sequence[Stamp]) -> None:
        """Read, embed and write: each in a thread of its own, some chunks after the one before."""
        waiting = list(stamps)
        while waiting:
            again: list[Stamp] = []
            chunks = self._collect(waiting)
            with (
                closing(chunks),
                ThreadPoolExecutor(1, "reading files") as reading,
                ThreadPoolExecutor(1, "embedding") as embedding,
            ):
                try:
                    ahead = deque(reading.submit(next, chunks, None) for _ in range(_AHEAD))
                    embedded: deque[tuple[_FileChunk, Future[Matrix]]] = deque()
                    while (chunk := self._wait(ahead.popleft())) is not None:
                        ahead.append(reading.submit(next, chunks, None))
                        embedded.append((chunk, embedding.submit(self._embed, chunk.texts)))
                        if len(embedded) > 1:
                            again += self._finish(*embedded.popleft())
                    while embedded:
                        again += self._finish(*embedded.popleft())
                except BaseException:
                    self._stopped.set()
                    raise
            # Content that was known and is gone by now: another file that had it has changed.
            waiting = again

    def _collect(self, stamps: Sequence[Stamp]) -> Generator[_FileChunk, None, None]:
        """Files as they are read, in chunks."""
        order: deque[_PendingFile] = deque()
        ready: list[_PendingFile] = []

        def paths() -> Iterator[Path]:
            for stamp in stamps:
                if self._stopped.is_set():
                    raise _Stopped
                file = self._look_up(stamp)
                if file.error is None and file.digest and file.content is _UNREAD:
                    order.append(file)
                    yield stamp.file
                else:
                    ready.append(file)

        chunk, num_texts, start = _FileChunk(), 0, time.monotonic()
        reading = self._reader.read(paths())
        try:
            for found in reading:
                file = order.popleft()
                self._fill(file, found)
                self._counter.read(file.stamp, len(file.texts))
                chunk.files += [*ready, file]
                ready.clear()
                num_texts += len(file.texts)
                if num_texts >= CHUNK_PASSAGES or time.monotonic() - start > _CHUNK_S:
                    yield chunk
                    chunk, num_texts, start = _FileChunk(), 0, time.monotonic()
            chunk.files += ready
            if chunk.files:
                yield chunk
        finally:
            close = getattr(reading, "close", None)
            if close is not None:
                close()  # ends its processes

    def _look_up(self, stamp: Stamp) -> _PendingFile:
        """A file that need not be read, as its content is in the index; or one that has to be."""
        try:
            digest = self._digest(stamp)
        except OSError as error:
            message = f"{stamp.file.name} cannot be read: {error.strerror or error}"
            hint = "Check the permissions; it is tried again when it changes."
            return _PendingFile(stamp, error=InvalidInputError(message, hint=hint))
        if self._index.read(lambda c: db.find_content(c, digest)) is not None:
            self._counter.read(stamp, 0)
            return _PendingFile(stamp, digest)
        return _PendingFile(stamp, digest, content=_UNREAD)

    def _fill(self, file: _PendingFile, found: object) -> None:
        """What a file says; whatever is wrong with it is in the file, not raised."""
        file.content = None
        try:
            if not isinstance(found, Content):
                file.error = found.error  # type: ignore[attr-defined]
                return
            _check_unchanged(file.stamp)
        except AnyrigError as error:
            file.error = error
            return
        except OSError as error:
            message = f"{file.stamp.file.name} cannot be read: {error.strerror or error}"
            hint = "Check the permissions; it is tried again when it changes."
            file.error = InvalidInputError(message, hint=hint)
            return
        file.content = found
        if file.stamp.path in self._before:
            known = self._index.read(lambda c: db.list_vectors(c, file.stamp.path))
            file.known = {body: np.frombuffer(data, np.float32) for body, data in known.items()}

    def _finish(self, chunk: _FileChunk, future: Future[Matrix]) -> list[Stamp]:
        """Write the files of a chunk when its vectors are there; those to be looked at again."""
        try:
            matrix = self._wait(future)
        except (WorkError, OutOfMemoryError):
            return [stamp for file in chunk.files for stamp in self._write_alone(file)]
        embedded = dict(zip(chunk.texts, matrix, strict=True))
        self._num_broken = 0
        self.done.num_embedded += len(embedded)
        self._on_progress(self._counter.now)
        return [stamp for file in chunk.files for stamp in self._write(file, embedded)]

    def _wait(self, future: Future[T]) -> T:
        """Its result; progress is reported meanwhile."""
        while True:
            try:
                return future.result(timeout=_REPORT_S)
            except FutureTimeoutError:
                if future.done():
                    raise
                self._on_progress(self._counter.now)

    def _write_alone(self, file: _PendingFile) -> list[Stamp]:
        """A file by itself, after a chunk failed; if it fails alone, it is its own fault."""
        texts = list(dict.fromkeys(file.texts))
        try:
            matrix = self._embed(texts)
        except (WorkError, OutOfMemoryError) as error:
            self._count_broken(error)
            file.error = error
            matrix = np.zeros((0, 0), np.float32)
            texts = []
        else:
            self._num_broken = 0
            self.done.num_embedded += len(texts)
        return self._write(file, dict(zip(texts, matrix, strict=True)))

    def _write(self, file: _PendingFile, embedded: Mapping[str, Matrix]) -> list[Stamp]:
        """Write a file; returned if it has to be looked at again."""
        stamp, content, seen = file.stamp, file.content, self._plan.seen
        if file.error is not None:
            self._write_error(stamp, file.error)
            return []
        outcome = ""
        ids: list[int] = []

        def work(connection: sqlite3.Connection) -> list[int]:
            nonlocal outcome, ids
            if db.is_under(stamp.path, db.list_excluded(connection)):
                outcome = "excluded"  # removed for good while it was read
                return []
            gone = db.put_link(connection, stamp, seen, file.digest)
            if gone is not None or content is None:
                outcome = "again" if gone is None else "linked"
            else:
                bodies = [one.body for one in content.passages]
                rows = [file.known[one] if one in file.known else embedded[one] for one in bodies]
                ids = self._ids.take(len(rows))
                gone = db.put_content(connection, stamp, seen, file.digest, content, ids, rows)
                self._write_vectors(ids, rows)
                outcome = "written"
            erase_rows(self._index.path, gone or [])
            return gone or []

        self._ids.give_back(self._index.write(work))
        if outcome == "again":
            return [stamp]
        self._count(file, outcome)
        self._counter.add_written(stamp)
        self._on_progress(self._counter.now)
        return []

    def _write_vectors(self, ids: Sequence[int], rows: Sequence[Matrix]) -> None:
        if ids:
            self._writer.write(ids, np.array(rows, np.float32))

    def _count(self, file: _PendingFile, outcome: str) -> None:
        done, before = self.done, self._before.get(file.stamp.path)
        if outcome == "excluded":
            done.num_excluded += 1
        elif before is not None and before.digest == file.digest:
            done.num_same += 1
        elif before is not None:
            done.num_changed += 1
        elif outcome == "linked":
            done.num_moved += 1
        else:
            done.num_new += 1
        if file.content is not None and outcome == "written":
            done.num_passages += len(file.content.passages)
            done.warnings += [f"{file.stamp.file}: {one}" for one in file.content.warnings]

    def _write_error(self, stamp: Stamp, error: AnyrigError) -> None:
        message, hint = error.message, error.hint
        lacks_ocr = isinstance(error, MissingOcrError)
        reason = FailureReason.NO_OCR if lacks_ocr else FailureReason.OTHER

        def work(connection: sqlite3.Connection) -> list[int]:
            gone = db.put_error(connection, stamp, self._plan.seen, message, hint, reason)
            erase_rows(self._index.path, gone)
            return gone

        self._ids.give_back(self._index.write(work))
        self.done.failed.append(UnreadFile(stamp.file, message, hint))
        self._counter.add_written(stamp, failed=True)
        self._on_progress(self._counter.now)

    # -- deleted files -------------------------------------------------------------------------

    def _drop(self, gone: Sequence[bytes]) -> None:
        """Forget deleted files; last, so that a moved one keeps what it has."""
        steps = StepCounter("removing", len(gone))
        for path in gone:

            def work(connection: sqlite3.Connection, path: bytes = path) -> None:
                erase_rows(self._index.path, db.drop_files(connection, [path]))

            self._index.write(work)
            self.done.num_gone += 1
            self._on_progress(steps.add(title=Stamp(path, 0, 0).file.name))


class _FreeIds:
    """Ids for passages: of those that are gone first, so that the file of vectors stays small."""

    def __init__(self, index: IndexDatabase) -> None:
        used = index.read(lambda c: c.execute("SELECT id FROM passages").fetchall())
        ids = np.fromiter((id for (id,) in used), np.int64, len(used))
        self._next = int(ids.max(initial=0)) + 1
        self._free: list[int] = np.setdiff1d(np.arange(1, self._next), ids)[::-1].tolist()

    def take(self, count: int) -> list[int]:
        """So many, ascending."""
        reused = self._free[len(self._free) - min(count, len(self._free)) :]
        del self._free[len(self._free) - len(reused) :]
        new = range(self._next, self._next + count - len(reused))
        self._next += len(new)
        return sorted(reused) + list(new)

    def give_back(self, ids: Sequence[int]) -> None:
        self._free += sorted(ids, reverse=True)


_UNREAD = Content("", "", "", 0, 0, 0, ())
"""Stands for the content of a file that is being read."""


def _digest(stamp: Stamp, max_bytes: int) -> str:
    if stamp.size > max_bytes:  # left to the reader, which refuses it
        return hashlib.sha256(b"%d of " % stamp.mtime_ns + stamp.path).hexdigest()
    return digest_file(stamp.path)


def _check_unchanged(stamp: Stamp) -> None:
    state = os.stat(stamp.path)
    if (state.st_size, state.st_mtime_ns) != (stamp.size, stamp.mtime_ns):
        raise InvalidInputError(
            f"{stamp.file.name} was changed while it was read",
            hint="Run it again when the file is finished.",
        )


def _describe_unseen(one: Unseen, index: str) -> str:
    warning = f"{one.path} cannot be read ({one.reason})"
    if not one.num_files:
        return warning
    option = "" if index == "default" else f" --index {shlex.quote(index)}"
    return (
        f"{warning}, perhaps as its drive is not mounted: its {pluralize(one.num_files, 'file')}"
        " stayed in the index."
        f" `anyrig index{option} --remove {shlex.quote(str(one.path))}` removes them"
    )


def _to_unread_file(known: Known) -> UnreadFile:
    return UnreadFile(known.stamp.file, known.error, known.hint)
