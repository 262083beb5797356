"""Folders into an index: what changed is read, cut, embedded and written, a file at a time.

    with alone(path), IndexFile(path) as index:
        done = update(index, roots, vectors, ways)

The passages of all files are one stream to the model, so that small files fill its batches. A file
is written in one transaction when its last vector is there. Whatever kills the process: the next
run finds what is missing, and nothing is there twice.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.documents.index import rows
from anyrig.documents.index.anew import MOST_BROKEN, Anew
from anyrig.documents.index.database import count
from anyrig.documents.index.nearest import unit
from anyrig.documents.index.opened import Opened, Reader, known, opened
from anyrig.documents.index.plan import Look, Plan, Unseen, plan
from anyrig.documents.index.progress import FilesPace, Pace, Tell
from anyrig.errors import AnyrigError, OutOfMemoryError, WorkError
from anyrig.results import in_json
from anyrig.text.folder import not_followed
from anyrig.units import pluralize

if TYPE_CHECKING:
    from anyrig.documents.index.database import IndexFile
    from anyrig.documents.index.rows import Known, Stamp
    from anyrig.documents.protocol import Vectors

_BATCH = 256  # texts that are embedded anew in one transaction


@dataclass(frozen=True)
class Ways:
    """How files are found and read."""

    look: Look
    read: Reader
    how: str = "auto"
    """Names what shapes their text besides their bytes; without spaces."""
    most_bytes: int = 200_000_000
    retry: bool = False
    glance: Reader | None = None
    """Reads the text that files have of their own, without OCR; `read` where it is None."""


@dataclass(frozen=True)
class Failed:
    """A file that could not be read."""

    file: Path
    error: str
    hint: str


@dataclass
class Indexed:
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
    failed: list[Failed] = field(default_factory=list)
    old_failed: list[Failed] = field(default_factory=list, metadata=in_json("failed_before"))
    warnings: list[str] = field(default_factory=list)
    others: tuple[Path, ...] = field(default=(), metadata=in_json("other_kinds"))
    """Files of kinds that are not read."""
    wall_s: float = 0.0
    found: dict[bytes, Stamp] = field(default_factory=dict, repr=False, metadata=in_json(omit=True))
    """All files of the folders as they were seen."""

    @property
    def changed(self) -> bool:
        """Whether the index is another than before."""
        return bool(self.num_new or self.num_changed or self.num_moved or self.num_gone)


def update(
    index: IndexFile,
    roots: Sequence[bytes],
    vectors: Vectors,
    ways: Ways,
    *,
    tell: Tell | None = None,
    wait_for: Mapping[bytes, Stamp] | None = None,
    reference: str = "",
) -> Indexed:
    """Bring the index to what lies in the folders.

    Args:
        index: is written.
        roots: the folders, as `plan.whole` names them.
        vectors: of the passages.
        ways: how files are found and read.
        tell: is told how far it is.
        wait_for: see `plan.plan`.
        reference: what the model is found by again, where its name does not do it.
    """
    began = time.monotonic()
    todo = plan(
        roots, ways.look, index.read(rows.known), index.read(rows.excluded), how=ways.how,
        retry=ways.retry, wait_for=wait_for,
    )  # fmt: skip
    if todo.stamps:
        index.write(lambda c: rows.set_pending(c, len(todo.stamps), todo.seen))
    run = _Run(index, vectors, ways, todo, tell)
    run.embed_anew(reference)
    run.take(list(todo.stamps))
    run.forget(todo.gone)
    if index.read(rows.has_pending):
        index.write(rows.clear_pending)
    run.done.wall_s = time.monotonic() - began
    return run.done


@dataclass
class _Pending:
    """A file on its way: read, and waiting for vectors."""

    opened: Opened
    stamp: Stamp
    last: int = 0
    """The number of the last vector that it waits for, in the order of asking."""


class _Run:
    """One bringing up to date."""

    def __init__(
        self, index: IndexFile, vectors: Vectors, ways: Ways, todo: Plan, tell: Tell | None
    ) -> None:
        self.done = Indexed(
            num_same=todo.num_same,
            num_excluded=todo.num_excluded,
            found=todo.found,
            old_failed=[_old(one) for one in todo.old_errors],
            others=todo.others,
            warnings=[
                *(_describe_unseen(one, index.path.stem) for one in todo.unseen),
                *not_followed(todo.outside),
            ],
        )
        self._index, self._vectors, self._ways, self._seen = index, vectors, ways, todo.seen
        self._tell = tell or (lambda _: None)
        self._before = index.read(rows.known)
        self._pace = FilesPace(todo.stamps)
        # Texts may be pulled by another thread than the one that takes the vectors.
        self._lock = threading.RLock()
        self._pending: deque[_Pending] = deque()
        self._asked: deque[bytes] = deque()
        self._number: dict[bytes, int] = {}
        self._got: dict[bytes, bytes] = {}
        self._needed: Counter[bytes] = Counter()
        self._num_asked = self._num_got = self._stream_number = 0
        self._taken: dict[bytes, Stamp] = {}
        """Files that were opened and are not written yet."""

    # -- the model -----------------------------------------------------------------------------

    def embed_anew(self, reference: str = "") -> None:
        """Make the index this model's: texts without a vector get one, a batch at a time."""
        model = self._vectors.model
        named = reference or model.name
        if self._index.read(rows.model)[:2] != (model.fingerprint, named):
            self._index.write(
                lambda c: rows.set_model(c, model.fingerprint, named, model.dimension)
            )
        anew, after = Anew(self._vectors), 0
        total = self._index.read(_num_lacking)
        pace = Pace("embedding", total)
        while some := self._lacking(after):
            pairs = anew.made(some)
            self._index.write(lambda c, pairs=pairs: rows.put_vectors(c, pairs))  # type: ignore[misc]
            after = some[-1][0]
            self.done.num_embedded += len(pairs)
            for _ in some:
                pace.add(passages=1)
            self._tell(pace.now)
        if total:  # who searches meanwhile has later texts, and looks no further back by itself
            self._index.write(lambda c: count(c, "removed"))
        self.done.warnings += anew.warnings

    def _lacking(self, after: int) -> list[tuple[int, str]]:
        return self._index.read(lambda c: rows.without_vectors(c, after, _BATCH))

    # -- files ---------------------------------------------------------------------------------

    def take(self, stamps: list[Stamp]) -> None:
        """Read, embed and write files; one whose text cannot be embedded costs itself alone."""
        if not stamps:
            return
        self._tell(self._pace.now)
        waiting = deque(stamps)
        again: list[Stamp] = []
        num_broken = 0
        while waiting:
            try:
                self._stream(waiting, again)
            except (WorkError, OutOfMemoryError) as error:
                stuck = self._reset()
                num_failed = len(self.done.failed)
                for stamp in stuck:
                    self._alone(stamp, again, error)
                num_broken = num_broken + 1 if len(self.done.failed) > num_failed else 0
                if num_broken >= MOST_BROKEN:
                    raise
        # Content that was known and is gone by now: another file that had it has changed.
        if again:
            self.take(again)

    def _stream(self, waiting: deque[Stamp], again: list[Stamp]) -> None:
        blocks = self._vectors.embed(self._texts(waiting, again))
        for vector in (row for block in blocks for row in block):
            with self._lock:
                self._got[self._asked.popleft()] = unit(vector, self._vectors.model).tobytes()
                self._num_got += 1
                self.done.num_embedded += 1
                self._pace.embedded()
                self._write_ready(again)
            self._tell(self._pace.now)
        with self._lock:
            self._write_ready(again)

    def _alone(self, stamp: Stamp, again: list[Stamp], error: AnyrigError) -> None:
        """A file by itself, after the stream broke; what breaks it alone is its own fault."""
        try:
            self._stream(deque([stamp]), again)
        except (WorkError, OutOfMemoryError) as own:
            self._reset()
            self._failed(stamp, own)

    def _texts(self, waiting: deque[Stamp], again: list[Stamp]) -> Iterator[str]:
        """The texts that the model is asked for, of file after file."""
        stream = self._stream_number
        order: deque[tuple[Stamp, str]] = deque()
        found = self._ways.read(self._paths(waiting, order, again))
        try:
            asked = time.monotonic()
            for read in found:
                stamp, digest = order.popleft()
                waited_s = time.monotonic() - asked
                what = opened(stamp, digest, read, self._index)
                with self._lock:
                    if stream != self._stream_number:
                        return  # it broke, and another has begun
                    lacking = self._queue(stamp, what)
                    self._pace.read(stamp, waited_s, len(lacking))
                    self._write_ready(again)
                self._tell(self._pace.now)
                yield from lacking
                asked = time.monotonic()
        finally:
            close = getattr(found, "close", None)
            if close is not None:
                close()  # ends its processes

    def _paths(
        self, waiting: deque[Stamp], order: deque[tuple[Stamp, str]], again: list[Stamp]
    ) -> Iterator[Path]:
        """The files that have to be read; those that are known are written on the way."""
        stream = self._stream_number
        while waiting:
            with self._lock:
                if stream != self._stream_number:
                    return
                stamp = waiting.popleft()
                self._taken[stamp.path] = stamp
            what = known(stamp, self._index, self._ways.how, self._ways.most_bytes)
            if isinstance(what, str):
                order.append((stamp, what))
                yield stamp.file
                continue
            with self._lock:
                if stream != self._stream_number:
                    return
                self._write(_Pending(what, stamp), again)
                del self._taken[stamp.path]

    def _queue(self, stamp: Stamp, read: Opened) -> list[str]:
        """A file among those that wait; the texts that nobody has asked for yet."""
        pending = _Pending(read, stamp)
        lacking = []
        for digest, text in read.texts.items():
            if digest in read.vectors:
                continue
            if digest not in self._number:
                self._num_asked += 1
                self._number[digest] = self._num_asked
                self._asked.append(digest)
                lacking.append(text)
            self._needed[digest] += 1
            pending.last = max(pending.last, self._number[digest])
        self._pending.append(pending)
        return lacking

    def _write_ready(self, again: list[Stamp]) -> None:
        while self._pending and self._pending[0].last <= self._num_got:
            self._write(self._pending[0], again)
            done = self._pending.popleft()
            del self._taken[done.stamp.path]
            for digest in done.opened.texts:
                if digest in done.opened.vectors:
                    continue
                self._needed[digest] -= 1
                if not self._needed[digest]:  # later files find it in the index
                    del self._needed[digest], self._number[digest], self._got[digest]

    def _write(self, pending: _Pending, again: list[Stamp]) -> None:
        read, stamp = pending.opened, pending.stamp
        if read.error is not None:
            self._failed(stamp, read.error)
            return
        content = read.content
        made = {**read.vectors, **{d: self._got[d] for d in read.texts if d in self._got}}

        def work(connection: rows.Connection) -> str:
            if rows.is_under(stamp.path, rows.excluded(connection)):
                return "excluded"  # removed for good while it was read
            if content is None:
                there = rows.put_link(connection, stamp, self._seen, read.digest)
                return "linked" if there else "again"
            rows.put_content(connection, stamp, self._seen, content, made)
            return "written"

        self._count(pending, self._index.write(work), again)

    def _count(self, pending: _Pending, what: str, again: list[Stamp]) -> None:
        stamp, content, done = pending.stamp, pending.opened.content, self.done
        if what == "again":
            again.append(stamp)
            return
        before = self._before.get(stamp.path)
        if what == "excluded":
            done.num_excluded += 1
        elif before is not None and before.digest == pending.opened.digest:
            done.num_same += 1
        elif before is not None:
            done.num_changed += 1
        elif what == "linked":
            done.num_moved += 1
        else:
            done.num_new += 1
        if content is not None:
            done.num_passages += len(content.passages)
            done.warnings += [f"{stamp.file}: {one}" for one in content.warnings]
        self._pace.written(stamp)
        self._tell(self._pace.now)

    def _failed(self, stamp: Stamp, error: AnyrigError) -> None:
        message, hint = error.message, error.hint
        self._index.write(lambda c: rows.put_error(c, stamp, self._seen, message, hint))
        self.done.failed.append(Failed(stamp.file, message, hint))
        self._pace.written(stamp, failed=True)
        self._tell(self._pace.now)

    def _reset(self) -> list[Stamp]:
        """Forget what was on its way when the stream broke; the files that were."""
        with self._lock:
            taken = list(self._taken.values())
            self._stream_number += 1
            self._taken.clear()
            self._pending.clear()
            self._asked.clear()
            self._number.clear()
            self._got.clear()
            self._needed.clear()
            self._num_asked = self._num_got = 0
        return taken

    # -- what is gone --------------------------------------------------------------------------

    def forget(self, gone: Sequence[bytes]) -> None:
        """Drop files that are not there any more; last, so that a moved one keeps what it has."""
        pace = Pace("removing", len(gone))
        for path in gone:
            self._index.write(lambda c, path=path: rows.drop_files(c, [path]))  # type: ignore[misc]
            self.done.num_gone += 1
            pace.add(title=rows.Stamp(path, 0, 0).file.name)
            self._tell(pace.now)


def _num_lacking(connection: rows.Connection) -> int:
    ((count,),) = connection.execute(
        "SELECT (SELECT count(*) FROM texts) - (SELECT count(*) FROM vectors)"
    ).fetchall()
    return int(count)


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


def _old(known: Known) -> Failed:
    return Failed(known.stamp.file, known.error, known.hint)
