"""The process that files are read in: requests come in as lines of JSON, answers go out so.

    {"do": "read", "path": ..., "limits": {...}}      {"page": 7, "of": 90} ... {"document": {...}}
    {"do": "render", "numbers": [1, 2], ...}          {"rendered": 1, "bytes": n} and n bytes ...

Each request ends with `{"done": true}` or `{"refused": ..., "hint": ..., "kind": ...}`. When the
process that asked is gone, this one ends as well, whatever it is at.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from anyrig.errors import AnyrigError, LimitExceededError
from anyrig.text import files, page_reader
from anyrig.text.document import document_to_json
from anyrig.text.formats import eml
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.memory import EXIT_CODE, limit_memory
from anyrig.text.page_reader import RenderedPage

_LOOK_S = 2.0
_SPARE_CPU_S = 60
_TOLD_EACH_S = 0.2
"""No more often than this is it told which page is being read."""


def main() -> None:
    """Answer requests until there are no more."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    out = cast(BinaryIO, os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # whatever a library prints is not an answer
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever asked, who ends this
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()
    limit_memory()
    gc.set_threshold(200_000)  # a page's glyphs are many and hold no circles: a third faster
    _say(out, {"ready": True})
    for line in sys.stdin.buffer:
        _serve(json.loads(line), out)
    os._exit(0)  # PDFium's own clean-up has nothing left to save


def _watch(parent: int) -> None:
    """End with the process that asked: a file that hangs would outlive it."""
    while True:
        time.sleep(_LOOK_S)
        if os.getppid() != parent:
            os._exit(1)


def _serve(request: dict[str, object], out: BinaryIO) -> None:
    limits = Limits(**cast("dict[str, int]", request["limits"]))
    _limit_cpu(limits)
    path = Path(str(request["path"]))
    limit_memory(path.stat().st_size if path.is_file() else 0)
    try:
        if request["do"] == "read":
            _read(path, limits, out)
        else:
            numbers = cast("list[int]", request["numbers"])
            # Messages take time before their first page.
            if files.format_of_name(path.name) not in eml.FORMATS:
                _say(out, {"page": 0, "of": len(numbers)})
            for page in _render(path, numbers, int(str(request["dpi"])), limits):
                said = {"rendered": page.number, "bytes": len(page.data), "error": page.error}
                _say(out, said, page.data)
        _say(out, {"done": True})
    except MemoryError:
        os._exit(EXIT_CODE)
    except AnyrigError as error:
        limit = error.limit if isinstance(error, LimitExceededError) else ""
        kind = type(error).__name__
        _say(out, {"refused": error.message, "hint": error.hint, "kind": kind, "limit": limit})


def _read(path: Path, limits: Limits, out: BinaryIO) -> None:
    last = 0.0

    def on_page(page: int, of: int) -> None:
        nonlocal last
        now = time.monotonic()
        if page == 0 or page == of or now - last > _TOLD_EACH_S:
            last = now
            _say(out, {"page": page, "of": of})

    _say(out, {"document": document_to_json(page_reader.read_pages(path, limits, on_page))})


def _render(path: Path, numbers: list[int], dpi: int, limits: Limits) -> Iterator[RenderedPage]:
    """Pages drawn; after one that cannot be, it goes on with the next."""
    at = 0
    while at < len(numbers):
        made = page_reader.render_pages(path, numbers[at:], dpi, limits)
        try:
            for data in made:
                yield RenderedPage(numbers[at], data)
                at += 1
            return
        except AnyrigError as error:
            yield RenderedPage(numbers[at], error=error.message)
            at += 1


def _limit_cpu(limits: Limits) -> None:
    """Where the system can: the last net under a reader that loops while nobody waits for it."""
    try:
        import resource
    except ImportError:
        return
    spent = resource.getrusage(resource.RUSAGE_SELF)
    most = int(spent.ru_utime + spent.ru_stime + limits.seconds) + _SPARE_CPU_S
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _say(out: BinaryIO, said: dict[str, object], data: bytes = b"") -> None:
    out.write(json.dumps(said).encode() + b"\n" + data)
    out.flush()


if __name__ == "__main__":
    main()
