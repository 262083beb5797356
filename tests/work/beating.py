"""Engines whose items last until a test ends them."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anyrig.work.engine import Usual

if TYPE_CHECKING:
    from anyrig.placement import Placement


class Waits(Usual):
    """Each item is a file to wait for: a long call that releases the interpreter's lock."""

    name = "waits"
    version = "1"
    pads = False
    most_items = 1

    def __init__(self, placement: Placement, *, started: str, holds_error: bool = False) -> None:
        self._started = Path(started)
        self._holds_error = holds_error

    def holds(self) -> tuple[str, ...]:
        if self._holds_error and self._started.exists():
            raise KeyError("a model was closed meanwhile")
        return ("waits",)

    def run(self, batch: Sequence[str]) -> list[str]:
        self._started.touch()
        while not Path(batch[0]).exists():
            time.sleep(0.01)
        return list(batch)


class HoldsLock(Waits):
    """Each item is a pipe to wait for, in a call that keeps the interpreter's lock."""

    name = "holds-lock"

    def run(self, batch: Sequence[str]) -> list[str]:
        self._started.touch()
        pipe = os.open(batch[0], os.O_RDWR)
        ctypes.PyDLL(None).read(pipe, ctypes.create_string_buffer(1), 1)
        return list(batch)
