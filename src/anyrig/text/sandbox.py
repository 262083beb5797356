"""Reads files in processes that can be killed, with limits of memory, CPU and time.

    with ReaderPool(4) as pool:
        for found in pool.read(paths):
            ...  # a Document or a ReadError for each path, in order

PDFium, Pillow and lxml are C libraries that parse files of strangers, and a parser in Python may
loop. So no file is parsed in the process that asks for it. A new process costs about a tenth of a
second of CPU, so one is kept for many files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast

from anyrig import errors
from anyrig.backends.process import start_module
from anyrig.errors import AnyrigError, InvalidInputError, LimitExceededError, WorkError
from anyrig.text.document import Document, Picture, document_from_json
from anyrig.text.formats import memory
from anyrig.text.formats.limits import Limits
from anyrig.text.labels import one_line

Form = Literal["pages", "book"]
"""`pages`: each page keeps what stands on it, and messages have their attachments as pages; a plain
text stays letter for letter. `book`: in chapters, with a cover."""

_WALL_FACTOR = 4
"""Real time that a file may take for each second of its limit, which counts CPU time."""
_PAGE_WALL_S = 120.0
_LAYOUT_PAGES = 160
"""Pages that are laid out, after the last one, in the time that one may take to be read."""
_START_S = 60.0
_MAX_FILES = 300
"""For one process: what libraries leak stays bounded."""
_MAX_DEATHS = 5
"""How often pages of one file may end the process before the rest of it is given up."""
_QUEUED_ANSWERS = 4
"""Pictures are large."""
_DAMAGED = "Get another copy of the file, or save it with another program."
# One thread is enough, and the address space that more would reserve counts against its limit.
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "MALLOC_ARENA_MAX": "1",
}

DPI = 300
"""At which pages are drawn: what OCR engines were trained on."""
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class RenderedPage:
    """The picture of a page."""

    number: int
    data: bytes = dataclasses.field(default=b"", repr=False)
    """A PNG file in grey; empty if it cannot be drawn."""
    error: str = ""
    """Why it cannot be drawn."""


@dataclass(frozen=True)
class ReadError:
    """A file that could not be read, and why."""

    path: Path
    error: AnyrigError


class ReaderPool:
    """Processes that read files, started as they are needed.

    Args:
        workers: files that `read` and `apply` read at once. Pages are drawn in one more.
        limits: of each file.
    """

    def __init__(self, workers: int = 1, limits: Limits = Limits()) -> None:  # noqa: B008 - frozen
        self._num_workers = workers
        self._limits = limits
        self._lock = threading.Lock()
        self._idle: list[_ReaderProcess] = []
        self._busy: dict[_ReaderProcess, int] = {}
        """Each with the thread that uses it."""
        self._abandoned: set[int] = set()
        """Threads whose results nobody takes any more."""
        self._closed = False

    def __enter__(self) -> ReaderPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all processes; whoever waits for one gets an error."""
        with self._lock:
            self._closed = True
            workers = [*self._idle, *self._busy]
            self._idle.clear()
        for worker in workers:
            worker.kill()

    def read(
        self, paths: Iterable[Path], *, form: Form = "pages"
    ) -> Generator[Document | ReadError]:
        """Each file, in order, read ahead; `paths` is taken as files are needed."""
        yield from self._run(paths, lambda path: self.read_file(path, form=form))

    def apply(
        self, function: str, paths: Iterable[Path], **arguments: object
    ) -> Iterator[Any | ReadError]:
        """What a function makes of each document, in order; it runs in the process that reads.

        Args:
            function: `module:name`; called with the document in pages and the arguments. What it
                returns, like the arguments, must be JSON.
            paths: of files.
        """
        given = {"function": function, "arguments": arguments}

        def apply_to(path: Path) -> Any:
            return self._find_answer(path, "applied", {"do": "apply", **given}).content["applied"]

        yield from self._run(paths, apply_to)

    def list_linked_pages(self, path: Path) -> list[Path]:
        """The pages of a manual whose index a file is, itself first; else the file alone."""
        answer = self._find_answer(path, "linked", {"do": "links"})
        found = [Path(each) for each in cast("list[str]", answer.content["linked"])]
        return found if len(found) > 1 else [path]

    def read_file(self, path: Path, *, form: Form = "pages") -> Document:
        """One file; whatever is wrong with it is one `InvalidInputError`."""
        path = Path(path)
        answers: list[_WorkerReply] = []
        try:
            self._collect(path, {"do": "read", "form": form}, answers)
        except _ProcessDied as died:
            # The text comes before the cover, which is no reason to lose it.
            if not any("document" in answer.content for answer in answers):
                raise self._explain(path, died) from None
        document: Document | None = None
        cover: Picture | None = None
        for answer in answers:
            if "document" in answer.content:
                document = document_from_json(cast("dict[str, Any]", answer.content["document"]))
            elif "cover" in answer.content:
                cover = Picture(answer.data, str(answer.content["cover"]))
        assert document is not None
        return dataclasses.replace(document, path=path, cover=cover)

    def render(
        self, path: Path, numbers: Sequence[int], *, dpi: int = DPI
    ) -> Iterator[RenderedPage]:
        """Pages drawn, one for each number, in order; one that cannot be drawn says why.

        A page that ends the process costs that page; the others are drawn by a new one.
        """
        left = list(numbers)
        num_deaths = 0
        while left:
            with self._lend() as worker:
                fresh = worker.num_files == 0
                try:
                    for page in self._render(worker, path, left, dpi):
                        left = left[1:]
                        yield page
                    return
                except _ProcessDied as died:
                    if not left:
                        return  # all pages had come
                    num_deaths += 1
                    if not fresh and num_deaths == 1 and died.cause is _Cause.CRASH:
                        continue  # perhaps by harm from an earlier file
                    message = self._explain(path, _ProcessDied(died.cause, left[0])).message
                    give_up = died.cause is _Cause.TOTAL_TIME or num_deaths >= _MAX_DEATHS
                    lost, left = (left, []) if give_up else (left[:1], left[1:])
                except AnyrigError as error:
                    message, lost, left = error.message, left, []
            yield from (RenderedPage(number, error=message) for number in lost)

    def _render(
        self, worker: _ReaderProcess, path: Path, numbers: list[int], dpi: int
    ) -> Iterator[RenderedPage]:
        request = {"do": "render", "path": _encode(path), "numbers": numbers, "dpi": dpi}
        with contextlib.closing(worker.request(request, self._limits)) as answers:
            for answer in answers:
                if "rendered" in answer.content:
                    error = str(answer.content["error"])
                    yield RenderedPage(int(str(answer.content["rendered"])), answer.data, error)

    def _run(
        self, paths: Iterable[Path], run: Callable[[Path], _Result]
    ) -> Iterator[_Result | ReadError]:
        idents: set[int] = set()

        def run_one(path: Path) -> _Result | ReadError:
            idents.add(threading.get_ident())
            try:
                return run(path)
            except AnyrigError as error:
                return ReadError(path, error)

        if self._num_workers == 1:
            yield from (run_one(Path(path)) for path in paths)
            return
        waiting: deque[Future[_Result | ReadError]] = deque()
        threads = ThreadPoolExecutor(self._num_workers, thread_name_prefix="reading")
        try:
            for path in paths:
                waiting.append(threads.submit(run_one, Path(path)))
                if len(waiting) > 2 * self._num_workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            self._abandon(idents)
            threads.shutdown()
            self._abandoned -= idents

    def _abandon(self, idents: set[int]) -> None:
        """End what threads read: it could take minutes."""
        with self._lock:
            self._abandoned |= idents
            workers = [worker for worker, ident in self._busy.items() if ident in idents]
        for worker in workers:
            worker.kill()

    def _find_answer(self, path: Path, key: str, request: dict[str, object]) -> _WorkerReply:
        answers: list[_WorkerReply] = []
        try:
            self._collect(path, request, answers)
        except _ProcessDied as died:
            raise self._explain(path, died) from None
        return next(answer for answer in answers if key in answer.content)

    def _collect(self, path: Path, request: dict[str, object], answers: list[_WorkerReply]) -> None:
        """Add the answers to a request; of a process that an earlier file harmed, ask another."""
        request = {**request, "path": _encode(path)}
        with self._lend() as worker:
            fresh = worker.num_files == 0
            try:
                for answer in worker.request(request, self._limits):
                    answers.append(answer)  # noqa: PERF402 - those before an error are wanted
                return
            except _ProcessDied as died:
                if died.cause is not _Cause.CRASH or fresh:
                    raise
        answers.clear()
        with self._lend(fresh=True) as worker:
            for answer in worker.request(request, self._limits):
                answers.append(answer)  # noqa: PERF402

    @contextlib.contextmanager
    def _lend(self, *, fresh: bool = False) -> Iterator[_ReaderProcess]:
        with self._lock:
            if self._closed or threading.get_ident() in self._abandoned:
                raise WorkError("the file reader was closed", hint="Read the file again.")
            worker = self._idle.pop() if self._idle and not fresh else _ReaderProcess()
            self._busy[worker] = threading.get_ident()
        try:
            yield worker
        finally:
            with self._lock:
                self._busy.pop(worker, None)
                keep = (
                    not self._closed and worker.is_usable and len(self._idle) <= self._num_workers
                )
                if keep:
                    self._idle.append(worker)
            if not keep:
                worker.kill()

    def _explain(self, path: Path, died: _ProcessDied) -> InvalidInputError:
        """Why a file ended the process, in words."""
        name = one_line(path.name)
        page = f" on page {died.page}" if died.page else ""
        if died.cause is _Cause.TOTAL_TIME:
            return LimitExceededError(
                f"{name} takes longer than {self._limits.seconds:,.6g} seconds to read",
                hint=_DAMAGED,
                limit="seconds",
            )
        if died.cause is _Cause.PAGE_TIME:
            return InvalidInputError(f"{name} takes too long{page}", hint=_DAMAGED)
        if died.cause is _Cause.MEMORY:
            return InvalidInputError(f"{name} {memory.MESSAGE}{page}", hint=memory.HINT)
        return InvalidInputError(
            f"{name} cannot be read: it is damaged, or {memory.MESSAGE}{page}", hint=_DAMAGED
        )


def read_book(path: Path, *, limits: Limits = Limits()) -> Document:  # noqa: B008 - it is frozen
    """A file in chapters, with its cover; `InvalidInputError` if it cannot be read."""
    with ReaderPool(limits=limits) as pool:
        return pool.read_file(path, form="book")


class _Cause(enum.Enum):
    """Why a file ended the process that read it."""

    CRASH = enum.auto()
    MEMORY = enum.auto()
    PAGE_TIME = enum.auto()
    TOTAL_TIME = enum.auto()


class _WorkerReply(NamedTuple):
    content: dict[str, object]
    data: bytes = b""


class _ProcessDied(Exception):
    def __init__(self, cause: _Cause, page: int = 0) -> None:
        super().__init__(cause)
        self.cause = cause
        self.page = page


class _ReaderProcess:
    """A process, started with its first file, and a thread that takes its answers."""

    def __init__(self) -> None:
        self.num_files = 0
        self._process: Any = None
        self._answers: queue.Queue[_WorkerReply | None] = queue.Queue(_QUEUED_ANSWERS)
        self._killed = False

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    @property
    def is_usable(self) -> bool:
        return not self._killed and self.num_files < _MAX_FILES

    def request(
        self, request: dict[str, object], limits: Limits
    ) -> Generator[_WorkerReply, None, None]:
        """The answers to a request; the process is killed if they are not all taken.

        Only the time that is waited for an answer counts against the limits.
        """
        complete = False
        left, page_left, page = _WALL_FACTOR * limits.seconds, float("inf"), 0
        try:
            self._start()
            self.num_files += 1
            self._send({**request, "limits": dataclasses.asdict(limits)})
            while True:
                asked = time.monotonic()
                try:
                    answer = self._take(min(left, page_left), page)
                except queue.Empty:
                    cause = _Cause.PAGE_TIME if page_left < left else _Cause.TOTAL_TIME
                    raise _ProcessDied(cause, page + 1) from None
                left = max(0.0, left - (time.monotonic() - asked))
                if "failed" in answer.content:
                    raise RuntimeError(str(answer.content["failed"]))
                if "done" in answer.content or "refused" in answer.content:
                    complete = True
                    if "refused" in answer.content:
                        raise _build_error(answer.content)
                    return
                if "page" in answer.content or "rendered" in answer.content:
                    page_left = _PAGE_WALL_S
                if "page" in answer.content:
                    page, num_pages = (int(str(answer.content[key])) for key in ("page", "of"))
                    if page == num_pages:
                        page_left *= 1 + num_pages / _LAYOUT_PAGES
                yield answer
        finally:
            if not complete:
                self.kill()

    def _start(self) -> None:
        if self._process is not None:
            return
        self._process = start_module(
            "anyrig.text.sandbox_worker", {**os.environ, **_ENVIRONMENT}, own_group=False,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        threading.Thread(target=self._pump, name="answers on files", daemon=True).start()
        try:
            self._take(_START_S, 0)
        except (_ProcessDied, queue.Empty):
            if self._killed:
                raise WorkError("the file reader was closed", hint="Read the file again.") from None
            raise WorkError(
                "the process that reads files does not start",
                hint="Try again when the machine has less to do; see that Python can be started.",
            ) from None

    def _send(self, request: dict[str, object]) -> None:
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except (OSError, ValueError):
            raise _ProcessDied(self._find_cause(), 0) from None

    def _take(self, timeout_s: float, page: int) -> _WorkerReply:
        """The next answer; `queue.Empty` if none comes in time, `_ProcessDied` if none will."""
        answer = self._answers.get(timeout=timeout_s)
        if answer is None:
            self._answers.put_nowait(None)
            raise _ProcessDied(self._find_cause(), page + 1 if page else 0)
        return answer

    def _find_cause(self) -> _Cause:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(_START_S)
            if code == memory.EXIT_CODE:
                return _Cause.MEMORY
            if code == -getattr(signal, "SIGPROF", 0):
                return _Cause.PAGE_TIME
            if code == -getattr(signal, "SIGXCPU", 0):
                return _Cause.TOTAL_TIME
        return _Cause.CRASH

    def kill(self) -> None:
        """End the process; what it said and nobody took is dropped."""
        if self._killed:
            return
        self._killed = True
        if self._process is None:
            return
        _kill_children(self._process.pid)
        self._process.kill()
        self._process.wait()
        while True:  # for the thread that takes answers, which waits for room
            try:
                self._answers.get_nowait()
            except queue.Empty:
                break
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def _pump(self) -> None:
        with contextlib.suppress(OSError, ValueError), self._process.stdout as source:
            for line in source:
                content = cast("dict[str, object]", json.loads(line))
                length = int(str(content.get("bytes", 0)))
                data = source.read(length) if length else b""
                if len(data) < length:
                    break
                self._put(_WorkerReply(content, data))
        self._put(None)

    def _put(self, answer: _WorkerReply | None) -> None:
        while True:
            try:
                self._answers.put(answer, timeout=0.5)
                return
            except queue.Full:
                if self._killed:
                    return


def _kill_children(pid: int) -> None:
    """What a reader started, as Calibre: it would outlive it."""
    import psutil

    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            process.kill()


def _encode(path: Path) -> str:
    return str(path.absolute())


def _build_error(content: dict[str, object]) -> AnyrigError:
    """The error that a file was refused with, of the same class."""
    message, hint = str(content["refused"]), str(content["hint"])
    if content["kind"] == "LimitExceededError":
        return LimitExceededError(message, hint=hint, limit=str(content["limit"]))
    kind = getattr(errors, str(content["kind"]), InvalidInputError)
    return cast(AnyrigError, kind(message, hint=hint))
