"""What is asked of an engine of OCR: an engine of `work` whose items are pictures of pages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from anyrig.errors import OptionRef
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    from anyrig.documents.ocr.page import ReadPage


class Sheet(NamedTuple):
    """A picture to be read."""

    data: bytes
    """A file that Pillow opens: PNG, JPEG, TIFF, PGM..."""
    language: str = ""
    """ISO 639-1; found out from what is read when empty."""


class PageEngine(BaseEngine):
    """What every engine of OCR inherits: a page at a time, the same in any company."""

    weights: ClassVar[str] = ""
    """What tells its model from others."""
    pads = False
    batch_invariant = True
    max_items = 1
    memory_options = (OptionRef("dpi", "150"), OptionRef("workers_per_device", "1"))

    def run(self, batch: Sequence[Sheet]) -> list[ReadPage]:
        """What stands on each sheet."""
        found: list[ReadPage] = []
        for sheet in batch:
            before = _cpu_s()
            page = self.read(sheet)
            found.append(replace(page, cpu_s=_cpu_s() - before))
        return found

    def read(self, sheet: Sheet) -> ReadPage:
        """What stands on one."""
        raise NotImplementedError


def _cpu_s() -> float:
    """Of this process and those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
