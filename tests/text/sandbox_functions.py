"""What the tests of the sandbox have done in the process that reads."""

from __future__ import annotations

import os
import signal
import time

from anyrig.text.document import Document


def count_words(document: Document, least: int = 0) -> list[str]:
    return [word for word in document.text.split() if len(word) >= least]


def crash(_: Document) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def fill_memory(_: Document) -> int:
    return len([bytearray(10_000_000) for _ in range(300)])


def wait(document: Document, seconds: float) -> int:
    time.sleep(seconds)
    return len(document.parts("page"))


def loop(_: Document) -> None:
    while True:
        pass
