"""PDF by its text layer: characters with places become lines, paragraphs, notes and chapters.

The reading itself happens in a process of its own (`pdf_child.py`), as PDFium may crash or hang
on a hostile file; a new process costs about a third of a second. Pages that are pictures of text
are named, not read: that is OCR's work.
"""

from __future__ import annotations

import base64
import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, cast

from anyrig.backends.process import start_module
from anyrig.errors import InvalidInputError, MissingPackageError, ProtectedFileError
from anyrig.install import format_install
from anyrig.text.document import Document, Picture, document_from_json
from anyrig.text.formats import memory
from anyrig.text.formats.limits import Limits

MOST_PAGES = 20_000
_SILENT_S = 5.0
"""How long a page may take. Honest ones take hundredths of a second."""
_START_S = 60.0
"""How long the process may take to begin, on a machine that has much else to do."""
_ONCE_MORE_S = 0.05
"""On top, for each page, while all pages are laid out together."""
_EACH_S = 0.5
"""How long pages may take on the average. Ten times what they take on a slow machine."""
_COVER_S = 3.0
_DAMAGED = "Get another copy of the file, or convert it to EPUB with another program."


def read(path: Path, limits: Limits) -> Document:
    """All that a PDF says.

    Args:
        path: of the file.
        limits: how much it may ask of the machine.
    """
    _need_library()
    document: Document | None = None
    cover: Picture | None = None
    for answer in _answers(path, limits):
        if "refused" in answer:
            kind = ProtectedFileError if answer["locked"] else InvalidInputError
            raise kind(f"{path.name} {answer['refused']}", hint=str(answer["hint"]))
        if "document" in answer:
            document = document_from_json(cast("dict[str, Any]", answer["document"]))
        if answer.get("cover"):
            cover = Picture(base64.b64decode(str(answer["cover"])))
    if document is None:
        raise InvalidInputError(
            f"{path.name} cannot be read: it is damaged, or {memory.TOLD}", hint=_DAMAGED
        )
    return replace(document, cover=cover)


def _need_library() -> None:
    import importlib.util

    if importlib.util.find_spec("pypdfium2") is None:
        raise MissingPackageError(
            "PDF needs the package pypdfium2", hint=format_install("pypdfium2")
        )


def _answers(path: Path, limits: Limits) -> Iterator[dict[str, object]]:
    """What the process says, until it ends or is ended."""
    child = start_module(
        "anyrig.text.formats.pdf_child", os.environ, str(path.resolve()), str(MOST_PAGES),
        str(limits.characters), own_group=False, stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    lines: queue.Queue[bytes] = queue.Queue()
    reader = threading.Thread(
        target=_pump, args=(child.stdout, lines), name="pdf answers", daemon=True
    )
    reader.start()
    try:
        yield from _in_time(lines, path)
        if child.wait(_START_S) == memory.EXIT_CODE:
            raise InvalidInputError(f"{path.name} {memory.TOLD}", hint=memory.HINT)
    finally:
        child.kill()
        child.wait()
        reader.join()
        child.stdout.close()


def _pump(source: IO[bytes], lines: queue.Queue[bytes]) -> None:
    for line in source:
        lines.put(line)
    lines.put(b"")


def _in_time(lines: queue.Queue[bytes], path: Path) -> Iterator[dict[str, object]]:
    """The answers, as long as they keep coming."""
    allowed, last, told = _START_S, 0, False
    begun = time.monotonic()
    end, started = begun + _START_S, 0.0
    while True:
        asked = time.monotonic()
        try:
            line = lines.get(timeout=max(0.0, min(allowed, end - asked)))
        except queue.Empty:
            if told:
                return  # the text is there: a cover that cannot be drawn is no loss
            raise InvalidInputError(
                f"{path.name} takes too long: nothing came of page {last + 1}"
                f" in {time.monotonic() - (asked if asked < end else begun):.0f} seconds",
                hint=_DAMAGED,
            ) from None
        if not line:
            return
        answer = cast("dict[str, object]", json.loads(line))
        if "page" in answer:
            last = int(str(answer["page"]))
            started = started or time.monotonic()
            end = started + 2 * _SILENT_S + _EACH_S * int(str(answer["of"]))
        told = told or "document" in answer
        allowed = _COVER_S if told else _SILENT_S + _ONCE_MORE_S * last
        yield answer
