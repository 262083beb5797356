"""The process that `sandbox.py` reads files in: requests are lines of JSON, and so are answers.

    {"do": "read", "path": ..., "limits": {...}}      {"page": 7, "of": 90} ... {"document": {...}}
    {"do": "render", "numbers": [1, 2], ...}          {"rendered": 1, "bytes": n} and n bytes ...
    {"do": "links", "path": ..., "limits": {...}}     {"linked": [...]}

Each request ends with `{"done": true}` or `{"refused": ..., "hint": ..., "kind": ...}`. The process
ends with the one that started it. The system ends it with SIGPROF when a page takes too much CPU
time, and with SIGXCPU when the file does: so C libraries end too, and a busy machine ends nothing.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import logging
import math
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from anyrig.errors import AnyrigError, LimitExceededError
from anyrig.text import files
from anyrig.text.document import document_to_json
from anyrig.text.formats import eml
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.memory import EXIT_CODE, limit_memory

_PAGE_CPU_S = 8.0
"""How long one page of a PDF may take to read: honest ones take hundredths of a second."""
_LAYOUT_CPU_S = 0.05
"""On top, for each page, as all pages are laid out together at the end."""
_RENDER_CPU_S = 60.0
"""How long one page may take to be drawn: maps of many lines take seconds."""
_COVER_CPU_S = 3.0
_PARENT_CHECK_S = 2.0


def main() -> None:
    """Answer requests until there are no more."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    out = cast(BinaryIO, os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # whatever a library prints is not an answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever asked, who ends this
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()
    limit_memory()
    gc.set_threshold(200_000)  # a page's glyphs are many and hold no circles: a third faster
    _send(out, {"ready": True})
    for line in sys.stdin.buffer:
        _serve(json.loads(line), out)
    os._exit(0)  # PDFium's own clean-up has nothing left to save


def _watch_parent(parent: int) -> None:
    """End with the process that asked: a file that hangs would outlive it."""
    while True:
        time.sleep(_PARENT_CHECK_S)
        if os.getppid() != parent:
            os._exit(1)


def _serve(request: dict[str, object], out: BinaryIO) -> None:
    limits = Limits(**cast("dict[str, int]", request["limits"]))
    path = Path(str(request["path"]))
    _limit_file_time(limits.seconds)
    limit_memory(path.stat().st_size if path.is_file() else 0)
    try:
        if request["do"] == "read":
            _read(path, str(request["form"]), limits, out)
        elif request["do"] == "apply":
            _apply(path, request, limits, out)
        elif request["do"] == "links":
            from anyrig.text.linked_pages import list_linked_pages

            _send(out, {"linked": [str(each) for each in list_linked_pages(path, limits)]})
        else:
            _render(path, request, limits, out)
        _send(out, {"done": True})
    except MemoryError:
        os._exit(EXIT_CODE)
    except AnyrigError as error:
        limit = error.limit if isinstance(error, LimitExceededError) else ""
        kind = type(error).__name__
        _send(out, {"refused": error.message, "hint": error.hint, "kind": kind, "limit": limit})
    finally:
        _limit_page_time(0)


def _read(path: Path, form: str, limits: Limits, out: BinaryIO) -> None:
    paged = form == "pages"
    document = files.read(path, paged=paged, limits=limits, on_page=_PageReports(out))
    _send(out, {"document": document_to_json(document)})
    if paged:
        return
    cover = document.cover
    if document.format == "pdf" and files.detect_format(path, limits=limits) == "pdf":
        from anyrig.text.formats.pdf import draw_cover

        _limit_page_time(_COVER_CPU_S)
        with contextlib.suppress(Exception):  # the text is what is wanted
            cover = draw_cover(path)
    if cover is not None:
        _send(out, {"cover": cover.media_type, "bytes": len(cover.data)}, cover.data)


def _apply(path: Path, request: dict[str, object], limits: Limits, out: BinaryIO) -> None:
    module, _, name = str(request["function"]).partition(":")
    function = getattr(importlib.import_module(module), name)
    document = files.read(path, paged=True, limits=limits, on_page=_PageReports(out))
    _limit_page_time(0)
    try:
        found = function(document, **cast("dict[str, object]", request["arguments"]))
    except Exception:  # noqa: BLE001 - it is the function's fault, and no file's
        _send(out, {"failed": traceback.format_exc()})
        return
    _send(out, {"applied": found})


class _PageReports:
    """Tells which page is read, and gives each page its time."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def __call__(self, page: int, of: int) -> None:
        is_last = bool(of) and page == of
        _limit_page_time(_PAGE_CPU_S + (_LAYOUT_CPU_S * of if is_last else 0))
        _send(self._out, {"page": page, "of": of})


def _render(path: Path, request: dict[str, object], limits: Limits, out: BinaryIO) -> None:
    numbers, dpi = cast("list[int]", request["numbers"]), int(str(request["dpi"]))
    if files.guess_format(path.name) not in eml.FORMATS:  # those take time before the first page
        _limit_page_time(_RENDER_CPU_S)
    for number, data, error in _render_pages(path, numbers, dpi, limits):
        _send(out, {"rendered": number, "bytes": len(data), "error": error}, data)
        _limit_page_time(_RENDER_CPU_S)


def _render_pages(
    path: Path, numbers: list[int], dpi: int, limits: Limits
) -> Iterator[tuple[int, bytes, str]]:
    """Pages drawn, or why not; after one that cannot be, it goes on with the next."""
    at = 0
    while at < len(numbers):
        try:
            for data in files.render_pages(path, numbers[at:], dpi, limits):
                yield numbers[at], data, ""
                at += 1
            return
        except AnyrigError as error:
            yield numbers[at], b"", error.message
            at += 1


def _limit_page_time(seconds: float) -> None:
    """The CPU time from now after which the system ends this process; 0 for none."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _limit_file_time(seconds: float) -> None:
    try:
        import resource
    except ImportError:
        return
    spent = resource.getrusage(resource.RUSAGE_SELF)
    soft = math.ceil(spent.ru_utime + spent.ru_stime + seconds)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _send(out: BinaryIO, content: dict[str, object], data: bytes = b"") -> None:
    out.write(json.dumps(content).encode() + b"\n" + data)
    out.flush()


if __name__ == "__main__":
    main()
