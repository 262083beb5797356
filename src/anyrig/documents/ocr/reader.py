"""A page, from its picture to lines in reading order: level it, find lines, turn it, read, mend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from anyrig.documents.ocr import mend, opening, order, scripts, spaces, straighten, turn
from anyrig.documents.ocr.clean import cleaned
from anyrig.documents.ocr.ctc import certainty, joined
from anyrig.documents.ocr.detect import MOST_LOOKED_AT, Network, Quads, detect
from anyrig.documents.ocr.lines import HIGH, Recogniser, cut, longest
from anyrig.documents.ocr.page import Line, ReadPage, Word, box
from anyrig.documents.ocr.picture import grey
from anyrig.documents.ocr.vote import voted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from anyrig.documents.ocr.ctc import Alphabet, Char
    from anyrig.documents.ocr.engine import Sheet
    from anyrig.documents.ocr.picture import Grey
    from anyrig.documents.ocr.straighten import Matrix

FIRST_SIDE = 1280
"""The longer side of a page as the detector first sees it."""
_FULL_HEIGHT = 11.0
"""A line lower than this, in the detector's pixels, is looked for again in a larger picture."""
_WANTED_HEIGHT = 16.0
_SAMPLE = 8 * HIGH
"""How much of a line is read to vote on which way up the page is."""
SECOND_LOOKS = (1.0, 0.68)
"""Other widths at which a line is read again where a character was in doubt."""
_SURE = 0.85
_POOR = 0.35
"""A line that is read with less is dirt."""


class _Upright(NamedTuple):
    """A page that stands and lies as it should."""

    page: Grey
    quads: Quads
    back: Matrix
    """From its points to those of the picture."""
    turned: int
    skew: float


class Reader:
    """Both networks and what is made of their answers."""

    def __init__(
        self, detector: Network, recogniser: Network, alphabet: Alphabet, *, together: int = 1
    ) -> None:
        self._detector = detector
        self._lines = Recogniser(recogniser, together=together)
        self._alphabets = scripts.Alphabets(alphabet)

    def read(self, sheet: Sheet, *, engine: str = "", device: str = "") -> ReadPage:
        """What stands on a sheet."""
        picture = grey(sheet.data)
        height, width = picture.shape
        page, notes = cleaned(picture)
        upright = self._upright(page)
        chars, language = self._spelt(upright, sheet.language)
        lines = _arranged(upright, chars, language)
        return ReadPage(
            lines,
            width,
            height,
            upright.turned,
            upright.skew,
            language,
            engine,
            device,
            notes=notes,
        )

    # ---------------------------------------------------------------- the page itself

    def _upright(self, page: Grey) -> _Upright:
        skew = straighten.skew(page)
        level, back = straighten.levelled(page, skew)
        quads = self._found(level)
        turned = 0
        if turn.on_side(quads):
            turned = 90
            here, quads = self._turned(level, turned)
        else:
            here = level
        if turn.upside_down(longest(quads, turn.VOTERS), self._sureness(here, quads)):
            turned += 180
            here, quads = self._turned(level, turned)
        if turned:
            back = straighten.through(back, straighten.turned(level, turned)[1])
        return _Upright(here, quads, back, turned, skew)

    def _turned(self, page: Grey, degrees: int) -> tuple[Grey, Quads]:
        turned, _ = straighten.turned(page, degrees)
        return turned, self._found(turned)

    def _found(self, page: Grey) -> Quads:
        """The lines of a page; a second look where they are small."""
        scale = min(1.0, FIRST_SIDE / max(page.shape))
        scale = max(scale, min(2.0, 320 / max(1, min(page.shape))))
        scale = min(scale, (MOST_LOOKED_AT / page.size) ** 0.5)
        quads = detect(page, self._detector, scale)
        if not len(quads):
            return quads
        high = np.linalg.norm(quads[:, 3] - quads[:, 0], axis=1)
        wide = np.linalg.norm(quads[:, 1] - quads[:, 0], axis=1)
        usual = float(np.median(np.minimum(high, wide))) * scale
        if usual >= _FULL_HEIGHT:
            return quads
        larger = min(scale * _WANTED_HEIGHT / usual, (MOST_LOOKED_AT / page.size) ** 0.5)
        return detect(page, self._detector, larger) if larger > scale * 1.2 else quads

    def _sureness(self, page: Grey, quads: Quads) -> turn.Sure:
        def sure(voters: Sequence[int], over: bool) -> list[tuple[float, int]]:
            cuts = [cut(page, quads[n]) for n in voters]
            cuts = [np.ascontiguousarray(np.rot90(one, 2)) if over else one for one in cuts]
            seen = self._lines.see([one[:, :_SAMPLE] for one in cuts])
            said = [one.spelt(self._alphabets.whole) for one in seen]
            return [(certainty(chars), len(chars)) for chars in said]

        return sure

    # ---------------------------------------------------------------- its text

    def _spelt(self, upright: _Upright, language: str) -> tuple[list[list[Char]], str]:
        """The characters of each line, and the language of the page."""
        page, quads = upright.page, upright.quads
        seen = self._lines.see([cut(page, quad) for quad in quads])
        alphabet = self._alphabets.of(language, seen)
        chars = [one.spelt(alphabet) for one in seen]
        language = language or scripts.language_of("\n".join(map(joined, chars)))
        expecting = self._alphabets.expecting(language, alphabet)
        if expecting is not alphabet:
            chars = [one.spelt(expecting) for one in seen]
        doubtful = [n for n, said in enumerate(chars) if _doubtful(said)]
        looks = [
            self._lines.see([cut(page, quads[n], squeeze) for n in doubtful])
            for squeeze in SECOND_LOOKS
        ]
        for n, *others in zip(doubtful, *looks, strict=True):
            chars[n] = voted([chars[n], *(one.spelt(expecting) for one in others)])
        chars = [mend.mended(said, language) for said in chars]
        if alphabet is self._alphabets.latin:
            pairs = zip(quads, chars, strict=True)
            chars = [spaces.spaced(cut(page, quad, 1.0), said, language) for quad, said in pairs]
        return chars, language


def _doubtful(chars: Sequence[Char]) -> bool:
    return any(char.confidence < _SURE for char in chars)


def _arranged(upright: _Upright, chars: Sequence[list[Char]], language: str) -> tuple[Line, ...]:
    """Lines in reading order, with their words on the picture."""
    places = [
        _place(quad, number)
        for number, quad in enumerate(upright.quads)
        if chars[number] and certainty(chars[number]) >= _POOR
    ]
    blocks = order.blocks(places)
    numbers = [place.number for rows in blocks for row in rows for place in row]
    said = {number: chars[number] for number in numbers}
    if language in opening.LANGUAGES:
        cuts = [cut(upright.page, upright.quads[n], 1.0) for n in numbers]
        opened = opening.opened(cuts, [chars[n] for n in numbers])
        said = dict(zip(numbers, opened, strict=True))
    found: list[Line] = []
    for block, rows in enumerate(blocks):
        for row in rows:
            words: list[Word] = []
            for place in row:
                words += _words(said[place.number], upright.quads[place.number], upright.back)
            if words:
                found.append(_line(words, block))
    return tuple(found)


def _place(quad: NDArray[np.float32], number: int) -> order.Place:
    left, top = quad.min(axis=0).tolist()
    right, bottom = quad.max(axis=0).tolist()
    return order.Place(left, top, right, bottom, number)


def _words(chars: Sequence[Char], quad: NDArray[np.float32], back: Matrix) -> list[Word]:
    """The words of a line, each with the part of the line's box that it fills."""
    runs: list[list[Char]] = [[]]
    for char in chars:
        if char.text.isspace():
            runs.append([])
        else:
            runs[-1].append(char)
    runs = [run for run in runs if run]
    edges = [0.0]
    for before, after in zip(runs, runs[1:], strict=False):
        edges.append((before[-1].column + after[0].column) / 2)
    edges.append(1.0)
    found: list[Word] = []
    for run, start, end in zip(runs, edges, edges[1:], strict=False):
        left, right = _inner(run, start, end)
        found.append(Word(joined(run), box(_part(quad, left, right, back)), certainty(run)))
    return found


def _inner(run: Sequence[Char], start: float, end: float) -> tuple[float, float]:
    """Where a word begins and ends: half a letter beyond the middles of its first and last."""
    span = run[-1].column - run[0].column
    half = 0.6 * span / (len(run) - 1) if len(run) > 1 else (end - start) / 2
    return max(start, run[0].column - half), min(end, run[-1].column + half)


def _part(
    quad: NDArray[np.float32], start: float, end: float, back: Matrix
) -> list[tuple[float, float]]:
    """A stretch of a line's box, on the picture."""
    top, bottom = quad[1] - quad[0], quad[2] - quad[3]
    corners = [quad[0] + top * start, quad[0] + top * end, quad[3] + bottom * end,
               quad[3] + bottom * start]  # fmt: skip
    points = straighten.mapped(np.array(corners, np.float32), back)
    return [(float(x), float(y)) for x, y in points]


def _line(words: Sequence[Word], block: int) -> Line:
    first, last = words[0].box, words[-1].box
    count = sum(len(word.text) for word in words)
    sure = sum(word.confidence * len(word.text) for word in words) / max(1, count)
    text = " ".join(word.text for word in words)
    return Line(text, (first[0], last[1], last[2], first[3]), sure, tuple(words), block)
