"""Reads files in a process of its own, which is ended when a file crashes, hangs or fills it.

    with Apart(limits) as apart:
        for path in paths:
            document = apart.read(path)

PDFium, Pillow and lxml are C libraries that are fed with files of others, and a reader in Python
may loop; so nothing of a file is read in the process that asks. A new process costs about a tenth
of a second, so one is kept for many files, and replaced after some hundreds of them.
One thread at a time may use an `Apart`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from anyrig import errors
from anyrig.backends.process import start_module
from anyrig.errors import AnyrigError, InvalidInputError, LimitExceededError, WorkError
from anyrig.text.document import Document, document_from_json
from anyrig.text.formats import memory
from anyrig.text.formats.limits import Limits
from anyrig.text.labels import one_line
from anyrig.text.page_reader import DPI, RenderedPage

_SILENT_S = 20.0
"""How long one page of a PDF may take: honest ones take hundredths of a second."""
_DRAWN_S = 60.0
"""How long one page may take to be drawn: maps of many lines take seconds."""
_ONCE_MORE_S = 0.05
"""On top, for each page, as all pages are laid out together at the end."""
_START_S = 60.0
"""How long the process may take to begin, on a machine that has much else to do."""
_MOST_FILES = 300
"""For one process: what libraries leak stays bounded."""
_MOST_DEATHS = 5
"""How often pages of one file may end the process before the rest of it is given up."""
_AHEAD = 4
"""Answers that wait here: pictures are large."""
_DAMAGED = "Get another copy of the file, or save it with another program."
# One thread is enough, and the address space that more would reserve counts against its limit.
_QUIET = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "MALLOC_ARENA_MAX": "1",
}


class _Answer(NamedTuple):
    said: dict[str, object]
    data: bytes = b""


class _Died(Exception):
    """The process was ended by a file: `crash`, `memory`, `silent` (a page), `time` (all)."""

    def __init__(self, why: str, page: int = 0) -> None:
        super().__init__(why)
        self.why = why
        self.page = page


class Apart:
    """A process that reads files, started when it is first needed."""

    def __init__(self, limits: Limits = Limits()) -> None:  # noqa: B008 - it is frozen
        self._limits = limits
        self._child: _Child | None = None
        self._num_files = 0
        self._busy = False

    def __enter__(self) -> Apart:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process; it starts anew when it is needed."""
        child, self._child = self._child, None
        self._num_files, self._busy = 0, False
        if child is not None:
            child.end()

    def read(self, path: Path) -> Document:
        """A file page by page; whatever is wrong with it is one `InvalidInputError`."""
        used = self._child is not None
        try:
            return self._read(path)
        except _Died as error:
            if error.why != "crash" or not used:
                raise self._ended(path, error) from None
        try:
            return self._read(path)  # an earlier file may have harmed the process, not this one
        except _Died as error:
            raise self._ended(path, error) from None

    def _read(self, path: Path) -> Document:
        for answer in self._asked({"do": "read", "path": str(path.absolute())}):
            if "document" in answer.said:
                found = document_from_json(cast("dict[str, Any]", answer.said["document"]))
        return dataclasses.replace(found, path=path)

    def render(
        self, path: Path, numbers: Sequence[int], *, dpi: int = DPI
    ) -> Iterator[RenderedPage]:
        """Pages drawn, one for each number, in order; one that cannot be drawn says why.

        A page that ends the process costs that page; the others are drawn by a new one.
        """
        left = list(numbers)
        num_deaths = 0
        while left:
            used = self._child is not None and not num_deaths
            try:
                for page in self._render(path, left, dpi):
                    left = left[1:]
                    yield page
                return
            except _Died as error:
                if not left:
                    return  # all pages had come
                num_deaths += 1
                if used and error.why == "crash":
                    continue  # by harm from an earlier file, perhaps
                said = self._ended(path, _Died(error.why, left[0])).message
                over = error.why == "time" or num_deaths >= _MOST_DEATHS
                lost, left = (left, []) if over else (left[:1], left[1:])
            except AnyrigError as error:
                said, lost, left = error.message, left, []
            yield from (RenderedPage(number, error=said) for number in lost)

    def _render(self, path: Path, numbers: list[int], dpi: int) -> Iterator[RenderedPage]:
        request = {
            "do": "render", "path": str(path.absolute()), "numbers": numbers, "dpi": dpi,
        }  # fmt: skip
        with contextlib.closing(self._asked(request)) as answers:
            for answer in answers:
                if "rendered" in answer.said:
                    error = str(answer.said["error"])
                    yield RenderedPage(int(str(answer.said["rendered"])), answer.data, error)

    def _asked(self, request: dict[str, object]) -> Generator[_Answer, None, None]:
        """The answers to a request; the process is ended if they are not all taken.

        Only the time that is waited for an answer counts against the limit.
        """
        child = self._ready()
        self._busy = True
        left, silent, page = self._limits.seconds, float("inf"), 0
        whole = False
        try:
            child.ask({**request, "limits": dataclasses.asdict(self._limits)})
            while True:
                asked = time.monotonic()
                try:
                    answer = child.answer(min(left, silent))
                except queue.Empty:
                    raise _Died("silent" if silent < left else "time", page + 1) from None
                left = max(0.0, left - (time.monotonic() - asked))
                if "done" in answer.said or "refused" in answer.said:
                    whole, self._busy = True, False
                    if "refused" in answer.said:
                        raise _error(answer.said)
                    return
                if request["do"] == "render":
                    silent = _DRAWN_S
                elif "page" in answer.said:
                    page = int(str(answer.said["page"]))
                    silent = _SILENT_S + _ONCE_MORE_S * page
                yield answer
        finally:
            if not whole and self._child is child:
                self.close()

    def _ready(self) -> _Child:
        """A process that has nothing else to answer: not what a caller left half taken."""
        if self._child is not None and self._num_files < _MOST_FILES and not self._busy:
            self._num_files += 1
            return self._child
        self.close()
        self._num_files = 1
        self._child = _Child()
        return self._child

    def _ended(self, path: Path, error: _Died) -> InvalidInputError:
        """Why a file ended the process, in words."""
        name = one_line(path.name)
        page = f" on page {error.page}" if error.page else ""
        if error.why == "time":
            return LimitExceededError(
                f"{name} takes longer than {self._limits.seconds:,.6g} seconds to read",
                hint=_DAMAGED,
                limit="seconds",
            )
        if error.why == "silent":
            return InvalidInputError(f"{name} takes too long{page}", hint=_DAMAGED)
        if error.why == "memory":
            return InvalidInputError(f"{name} {memory.TOLD}{page}", hint=memory.HINT)
        return InvalidInputError(
            f"{name} cannot be read: it is damaged, or {memory.TOLD}{page}", hint=_DAMAGED
        )


class _Child:
    """The process, and a thread that takes its answers."""

    def __init__(self) -> None:
        self._process = start_module(
            "anyrig.text.apart_child", {**os.environ, **_QUIET}, own_group=False,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._answers: queue.Queue[_Answer | None] = queue.Queue(_AHEAD)
        self._pump = threading.Thread(target=self._take, name="answers on files", daemon=True)
        self._pump.start()
        try:
            self.answer(_START_S)
        except (_Died, queue.Empty):
            self.end()
            raise WorkError(
                "the process that reads files does not start",
                hint="Try again when the machine has less to do; see that Python can be started.",
            ) from None
        except BaseException:
            self.end()
            raise

    def ask(self, request: dict[str, object]) -> None:
        """Send a request; `_Died` if the process has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise _Died("memory" if self._code() == memory.EXIT_CODE else "crash") from None

    def answer(self, timeout_s: float) -> _Answer:
        """The next answer; `queue.Empty` if none comes in time, `_Died` if none will."""
        found = self._answers.get(timeout=timeout_s)
        if found is None:
            raise _Died("memory" if self._code() == memory.EXIT_CODE else "crash")
        return found

    def _code(self) -> int | None:
        """What it ended with; it has closed its pipe."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(_START_S)
        return None

    def end(self) -> None:
        """Kill it; what it said and nobody took is dropped."""
        self._process.kill()
        self._process.wait()
        while self._pump.is_alive():
            with contextlib.suppress(queue.Empty):
                self._answers.get(timeout=0.05)
        with contextlib.suppress(queue.Full):
            self._answers.put_nowait(None)  # for a thread that waits still
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def _take(self) -> None:
        source = self._process.stdout
        for line in source:
            said = cast("dict[str, object]", json.loads(line))
            length = int(str(said.get("bytes", 0)))
            data = source.read(length) if length else b""
            if len(data) < length:
                break
            self._answers.put(_Answer(said, data))
        self._answers.put(None)


def _error(said: dict[str, object]) -> AnyrigError:
    """The error that a file was refused with, of the same kind."""
    message, hint, kind = str(said["refused"]), str(said["hint"]), str(said["kind"])
    if kind == "LimitExceededError":
        return LimitExceededError(message, hint=hint, limit=str(said["limit"]))
    found = getattr(errors, kind, InvalidInputError)
    return cast(AnyrigError, found(message, hint=hint))
