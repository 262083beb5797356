"""An OCR engine reads pictures of pages, whichever way up they are.

What all engines need is done here, once: a page is cleaned and levelled, and a few of its lines are
read to find which way up it is and in which language. Only then is all of it read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from anyrig.documents.ocr.page import OcrLine, OcrWord, ReadPage, box, confidence, number_blocks
from anyrig.errors import OptionRef
from anyrig.work.engine import BaseEngine

if TYPE_CHECKING:
    from anyrig.documents.ocr.page import Box
    from anyrig.documents.ocr.picture import Grey
    from anyrig.documents.ocr.straighten import Matrix

_FEWEST_LETTERS = 3
"""Of a sample that says which way up its page is."""
_LEAST_CONTRAST = 40


class PagePicture(NamedTuple):
    """A picture to be read."""

    data: bytes
    """A file that Pillow opens: PNG, JPEG, TIFF, PGM..."""
    language: str = ""
    """ISO 639-1; found out from what is read when empty."""


@dataclass(frozen=True)
class PageReading:
    """The lines of a picture that lies as it was read."""

    lines: tuple[OcrLine, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)

    @property
    def num_letters(self) -> int:
        return sum(len(word.text) for line in self.lines for word in line.words)

    @property
    def confidence(self) -> float:
        """Over its characters; 0 if there are none, or if the words run down the page."""
        return 0.0 if not self.lines or self._is_on_side() else confidence(self.lines)

    @property
    def score(self) -> float:
        """How likely it is the right way up, to be compared with other ways."""
        return self.confidence**2 * self.num_letters

    def _is_on_side(self) -> bool:
        long = [word.box for line in self.lines for word in line.words if len(word.text) > 3]
        tall = sum(box[3][1] - box[0][1] > box[1][0] - box[0][0] for box in long)
        return 2 * tall > len(long)


class PageEngine(BaseEngine):
    """What every OCR engine inherits; a subclass defines `recognize`."""

    weights: ClassVar[str] = ""
    """What tells its model from others."""
    sure: ClassVar[float] = 0.8
    """A page that is read with this confidence is the right way up."""
    device = "cpu"
    pads = False
    batch_invariant = True
    max_items = 1
    memory_options = (OptionRef("dpi", "150"), OptionRef("workers_per_device", "1"))

    def run(self, batch: Sequence[PagePicture]) -> list[ReadPage]:
        pages: list[ReadPage] = []
        for sheet in batch:
            start = _get_cpu_s()
            page = self.read(sheet)
            pages.append(replace(page, cpu_s=_get_cpu_s() - start))
        return pages

    def read(self, sheet: PagePicture) -> ReadPage:
        from anyrig.documents.ocr import straighten
        from anyrig.documents.ocr.picture import clean, decode_picture

        picture = decode_picture(sheet.data)
        height, width = picture.shape
        page, notes = clean(picture)
        if float(page.max()) - float(page.min()) <= _LEAST_CONTRAST:
            return ReadPage((), width, height, language=sheet.language, engine=self.name,
                            device=self.device, notes=notes)  # fmt: skip
        skew, on_side = straighten.find_skew(page)
        level, back = straighten.level(page, skew)
        turned, sample = self._sample(level, sheet.language, on_side)
        language = sheet.language or detect_language(sample.reading.text)
        engine = self.engine_for(sample.reading, language)
        upright, unturned = straighten.turn(level, turned)
        if sample.is_whole and engine is self and language in ("", sample.language):
            reading = sample.reading
        else:
            reading = engine.recognize(upright, language, sample.x_height)
        if turned:
            back = straighten.join(back, unturned)
        lines = number_blocks(_move(line, back) for line in reading.lines)
        language = language or detect_language(reading.text)
        return ReadPage(lines, width, height, turned, skew, language, engine.name, engine.device,
                        notes=notes)  # fmt: skip

    def recognize(self, page: Grey, language: str, x_height: float) -> PageReading:
        """The lines of an upright page, in reading order.

        Args:
            page: level and upright.
            language: ISO 639-1; empty if it is unknown.
            x_height: of its letters, in pixels; 0 if it is unknown.
        """
        raise NotImplementedError

    def sample_language(self, language: str) -> str:
        """The language that a sample is read in."""
        return language

    def engine_for(self, sample: PageReading, language: str) -> PageEngine:
        """The engine that reads a page: another one where that reads its language better."""
        return self

    def _sample(self, page: Grey, language: str, on_side: bool) -> tuple[int, _Sample]:
        """How far a page must be turned clockwise, and a few of its lines, read that way up."""
        from anyrig.documents.ocr import straighten

        language = self.sample_language(language)
        samples: dict[int, _Sample] = {}
        for side in (90, 0) if on_side else (0, 90):
            turned, _ = straighten.turn(page, side)
            rows, x_height = straighten.find_sample_rows(turned)
            cut = turned[rows]
            for degrees in (side, side + 180):
                seen = cut if degrees == side else np.ascontiguousarray(np.rot90(cut, 2))
                reading = self.recognize(seen, language, x_height)
                sample = _Sample(reading, language, x_height, len(cut) == len(turned))
                samples[degrees] = sample
                if reading.confidence >= self.sure and reading.num_letters >= _FEWEST_LETTERS:
                    return degrees, sample
        best = max(samples, key=lambda degrees: samples[degrees].reading.score)
        best = best if samples[best].reading.score else 0
        return best, samples[best]


@dataclass(frozen=True)
class _Sample:
    reading: PageReading
    language: str
    x_height: float
    is_whole: bool
    """Whether it is all of the page."""


def detect_language(text: str) -> str:
    """The language of what was read; empty where it says too little."""
    from anyrig.text.language import detect

    found = detect(text)
    return found.language if found.sure else ""


def _move(line: OcrLine, back: Matrix) -> OcrLine:
    """A line with its boxes on the picture as it came."""
    from anyrig.documents.ocr.straighten import move_points

    def move(corners: Box) -> Box:
        return box(move_points(np.array(corners, np.float32), back).tolist())

    words = tuple(OcrWord(word.text, move(word.box), word.confidence) for word in line.words)
    return OcrLine(line.text, move(line.box), line.confidence, words, line.block)


def _get_cpu_s() -> float:
    """Of this process and those that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
