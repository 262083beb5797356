"""The characters of a PDF's page, read in bulk and put together to runs of text on one base line.

PDFium gives all letters of a page in one call, and what the characters of a text object share
(font, size, direction, base line) once for each object. Only boxes are asked for per character.
Everything after that is arithmetic on arrays.
"""

from __future__ import annotations

import ctypes
import math
import unicodedata
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from ctypes import addressof, c_double, c_int, c_void_p
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pypdfium2.raw as api

if TYPE_CHECKING:
    import pypdfium2 as pdfium
    from numpy.typing import NDArray

_BULLET = "\u2022"
_HYPHENS = "\x02\ufffe"  # PDFium's marks for a hyphen at a line's end
_FLAG_FIXED, _FLAG_FORCE_BOLD = 1, 1 << 18
_FAR = 1e6  # points
_INVISIBLE_MODES = (3, 7)
_SAMPLE = 8
"""Characters from one look at the text object to the next; objects have dozens."""
_MAX_STEPS = 200
GAP = 0.75
"""A wider gap, in ems, ends a run: a column's gutter may be as narrow as one em."""
_GUTTER = 0.4  # ems that may be a narrow gutter, if other lines have one in the same place
_WIDE = 0.17  # ems between words, where PDFium saw no space
_SEEN = 0.08  # ems between words, where it saw one: tight lines have spaces of an eighth of an em
_LEFTWARD = 0.14  # ems between words that run from right to left
_OVERHANG = 0.1  # ems of a letter that are the place of the one before
_TIGHT = 0.05  # ems between letters that touch
_INITIAL = 0.45  # a letter that is larger still stands over several lines
_SMALL = 0.85  # how much smaller the type of a note's number is
_MAX_ASIDE = 400
_MAX_STACKED = 4  # letters over each other

Span = tuple[int, int]


class TooManyCharacters(Exception):
    """A page has more characters than anyone prints."""


@dataclass(frozen=True, slots=True)
class TextRun:
    """Characters that stand together on one base line, with no wide gap in between.

    Places are in points from the lower left corner of the page as it is looked at.
    """

    text: str
    left: float
    right: float
    base: float
    size: float
    first: float = 0.0
    """How wide its first word is."""
    bold: bool = False
    mono: bool = False
    aside: bool = False
    """Turned, invisible or beyond the page: nothing that is read with the rest."""
    raised: tuple[Span, ...] = ()
    """Stretches of the text in small type above the line."""
    gaps: tuple[tuple[float, float, int], ...] = ()
    """Wide spaces inside: where each begins and ends, and where in the text the next word does."""

    def split_at(self, place: float) -> tuple[TextRun, ...]:
        """The parts before and after the wide space at a place; the whole where there is none."""
        for begin, end, at in self.gaps:
            if begin <= place <= end:
                text, rest = self.text[:at].rstrip(), self.text[at:]
                first = (self.right - end) * len(rest.partition(" ")[0]) / max(1, len(rest))
                before = tuple(span for span in self.raised if span[1] <= at)
                after = tuple((one - at, two - at) for one, two in self.raised if one >= at)
                later = tuple((one, two, n - at) for one, two, n in self.gaps if n > at)
                return (
                    replace(self, text=text, right=begin, raised=before, gaps=()),
                    replace(self, text=rest, left=end, first=first, raised=after, gaps=later),
                )
        return (self,)

    @property
    def top(self) -> float:
        """Where its capitals end, nearly."""
        return self.base + 0.75 * self.size


@dataclass(frozen=True, slots=True)
class PdfPage:
    number: int
    """Counted from 1."""
    width: float
    height: float
    runs: tuple[TextRun, ...]
    label: str = ""
    """What the file calls the page: `iv`, `12`."""
    num_characters: int = 0
    num_unknown: int = 0
    """Of the characters, those that the file does not name the letter of."""


class _TextObject(NamedTuple):
    """What the characters of one text object share."""

    size: float
    turn: int
    """Degrees against the page, as the file has it."""
    font: _Font
    invisible: bool


class _Font(NamedTuple):
    bold: bool = False
    mono: bool = False
    """All its characters are of one width."""
    symbols: bool = False
    """Its letters are drawn as pictures: Wingdings."""


_BLANK = _TextObject(1.0, 0, _Font(), invisible=False)


@dataclass(frozen=True)
class _Glyphs:
    """Drawn characters, as columns of a table; a ligature may be several letters."""

    letters: NDArray[np.object_]
    left: NDArray[np.float64]
    """Along the line, as `right` is; `base` is across it."""
    right: NDArray[np.float64]
    base: NDArray[np.float64]
    size: NDArray[np.float64]
    space: NDArray[np.int8]
    """Before it: 2 for a space that the file has, 1 for one that PDFium took from the gap."""
    drawn: NDArray[np.int64]
    """Which text object of the page drew it."""

    def take(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> _Glyphs:
        return _Glyphs(**{name: column[which] for name, column in vars(self).items()})

    def __len__(self) -> int:
        return len(self.letters)


def read_page(document: pdfium.PdfDocument, index: int, max_characters: int) -> PdfPage:
    """One page of an open document, counted from 0; `TooManyCharacters` if it has more."""
    page = document[index]
    try:
        text = page.get_textpage()
        try:
            if text.count_chars() > max_characters:
                raise TooManyCharacters
            glyphs, objects = _read_glyphs(text)
        finally:
            text.close()
        turns = np.array([one.turn for one in objects], np.int64)
        invisible = np.array([one.invisible for one in objects], np.bool_)
        up = _find_up(turns[glyphs.drawn], page.get_rotation() % 360)
        box = page.get_bbox()
        width, height = box[2] - box[0], box[3] - box[1]
        if up in (90, 270):
            width, height = height, width
        aside = turns[glyphs.drawn] != up
        hidden = invisible[glyphs.drawn]
        if 2 * hidden.sum() <= len(glyphs):  # else it is a scan's own text layer
            aside |= hidden
        glyphs = _turn_upright(glyphs, up, box)
        aside |= _find_beyond(glyphs, width, height)
        copies = _find_copies(glyphs)
        runs = _build_runs(glyphs.take(~aside & ~copies), objects)
        return PdfPage(
            index + 1, width, height, (*runs, *_build_aside(glyphs.take(aside & ~copies))),
            label=document.get_page_label(index) or "",
            num_characters=len(glyphs), num_unknown=sum(map(_is_unknown, glyphs.letters)),
        )  # fmt: skip
    finally:
        page.close()


# -- out of PDFium -----------------------------------------------------------------------------


@cache
def _function(name: str, *arguments: type, result: type = c_int) -> Callable[..., int]:
    """A function of PDFium that takes addresses as numbers: half the cost of a call."""
    address = ctypes.cast(getattr(api, name), c_void_p).value
    assert address
    return ctypes.PYFUNCTYPE(result, *arguments)(address)


def _read_glyphs(text: pdfium.PdfTextPage) -> tuple[_Glyphs, list[_TextObject]]:
    """Every character, and all text objects; white space is noted at the character after it."""
    count, page = text.count_chars(), ctypes.cast(text.raw, c_void_p).value
    letters = _read_letters(text.raw, count)
    boxes = np.zeros((max(count, 1), 4), np.float32)
    start = boxes.ctypes.data
    ask = _function("FPDFText_GetLooseCharBox", c_void_p, c_int, c_void_p)
    places = range(start, start + 16 * count, 16)
    deque(map(ask, repeat(page), range(count), places), maxlen=0)
    numbers, firsts = _find_objects(page or 0, count)
    fonts: dict[int, _Font] = {}
    is_letter = np.array([bool(one) and not one.isspace() for one in letters], np.bool_)
    num_letters = np.append(0, np.cumsum(is_letter)).tolist()
    objects = [
        _read_object(text.raw, page or 0, first, fonts)
        if num_letters[last + 1] > num_letters[first]
        else _BLANK
        for first, last in firsts
    ]
    base = np.zeros(count)
    sideways = np.array([one.turn in (90, 270) for one in objects], np.bool_)[numbers]
    for (first, last), one in zip(firsts, objects, strict=True):
        if one is _BLANK:
            continue
        if one.font.symbols:
            letters[first : last + 1] = [
                _BULLET if letter.isalnum() else letter for letter in letters[first : last + 1]
            ]
        across = _read_base(text.raw, first, one.turn)
        base[first : last + 1] = across
        if last > first and abs(_read_base(text.raw, last, one.turn) - across) > 0.01:
            base[first : last + 1] = [
                _read_base(text.raw, at, one.turn) for at in range(first, last + 1)
            ]
    left = np.where(sideways, boxes[:count, 3], boxes[:count, 0]).astype(np.float64)
    right = np.where(sideways, boxes[:count, 1], boxes[:count, 2]).astype(np.float64)
    near = (abs(left) < _FAR) & (abs(right) < _FAR) & (abs(base) < _FAR)
    space = _find_spaces(text.raw, letters, is_letter)
    glyphs = _Glyphs(
        np.array(letters, np.object_), left, np.maximum(left, right), base,
        np.array([one.size for one in objects])[numbers] if objects else base, space, numbers,
    )  # fmt: skip
    return glyphs.take(is_letter & near), objects


def _read_letters(page: object, count: int) -> list[str]:
    """The letters of each character: ligatures are taken apart."""
    room = ctypes.create_string_buffer(4 * count + 8)
    units = ctypes.cast(room, ctypes.POINTER(ctypes.c_ushort))
    length = api.FPDFText_GetText(page, 0, count, units) if count else 1
    text = room.raw[: 2 * max(length - 1, 0)].decode("utf-16-le", "surrogatepass")
    if len(text) != count:  # characters without any code are not in it
        codes = (api.FPDFText_GetUnicode(page, number) for number in range(count))
        text = "".join(chr(code) if code < 0x110000 else "\ufffd" for code in codes)
    table = {letter: _spell(letter) for letter in set(text)}
    return [table[letter] for letter in text]


def _spell(letter: str) -> str:
    if letter in _HYPHENS:
        return "-"
    if letter == "\0" or "\ud800" <= letter < "\ue000":
        return "\ufffd"
    if "\ufb00" <= letter <= "\ufb06" or letter in "\u0132\u0133":
        return unicodedata.normalize("NFKC", letter)
    if letter < " " or letter in "\ufeff\u200b":
        return ""
    if unicodedata.category(letter) in ("Cc", "Zl", "Zp"):
        return ""
    return " " if letter.isspace() else letter


def _find_objects(page: int, count: int) -> tuple[NDArray[np.int64], list[Span]]:
    """The number of each character's text object, and the first and last character of each.

    The characters of an object are in a row, so that those between two of one object are its own.
    """
    ask = _function("FPDFText_GetTextObject", c_void_p, c_int, result=c_void_p)
    numbers = np.zeros(count, np.int64)
    firsts: list[Span] = []
    at = 0
    while at < count:
        here, last, beyond = ask(page, at), at, at + 1
        if here:
            while (beyond := last + _SAMPLE) < count and ask(page, beyond) == here:
                last = beyond
            beyond = min(beyond, count)
            while beyond - last > 1:
                middle = (last + beyond) // 2
                if ask(page, middle) == here:
                    last = middle
                else:
                    beyond = middle
        numbers[at : last + 1] = len(firsts)
        firsts.append((at, last))
        at = last + 1
    return numbers, firsts


def _read_object(text: object, page: int, at: int, fonts: dict[int, _Font]) -> _TextObject:
    matrix = api.FS_MATRIX()
    scale, turn = 1.0, 0
    if _function("FPDFText_GetMatrix", c_void_p, c_int, c_void_p)(page, at, addressof(matrix)):
        scale = math.hypot(matrix.c, matrix.d) or 1.0
        turn = round(math.degrees(math.atan2(matrix.b, matrix.a))) % 360
    size = abs(
        _function("FPDFText_GetFontSize", c_void_p, c_int, result=c_double)(page, at) * scale
    )
    drawn = _function("FPDFText_GetTextObject", c_void_p, c_int, result=c_void_p)(page, at)
    font = _function("FPDFTextObj_GetFont", c_void_p, result=c_void_p)(drawn) if drawn else 0
    if not font or font not in fonts:
        fonts[font or 0] = _read_font(text, at)
    mode = _function("FPDFTextObj_GetTextRenderMode", c_void_p)(drawn) if drawn else 0
    return _TextObject(
        size if 0.5 < size < 2000 else 1.0, turn, fonts[font or 0], mode in _INVISIBLE_MODES
    )


def _read_font(page: object, at: int) -> _Font:
    flags, room = c_int(), ctypes.create_string_buffer(128)
    api.FPDFText_GetFontInfo(page, at, room, 128, flags)
    name = room.value.decode("utf-8", "replace").lower()
    bold = (
        any(word in name for word in ("bold", "black", "heavy", "cmbx", "demi"))
        or bool(flags.value & _FLAG_FORCE_BOLD)
        or (
            api.FPDFText_GetFontWeight(page, at) >= 650  # PDFium's guess from the width of a stem
            and not any(word in name for word in ("roman", "regular", "book", "light", "italic"))
        )
    )
    mono = any(word in name for word in ("courier", "mono", "cmtt", "consolas", "menlo"))
    symbols = any(word in name for word in ("wingdings", "webdings", "dingbats"))
    return _Font(bold, mono or bool(flags.value & _FLAG_FIXED), symbols)


def _read_base(page: object, at: int, turn: int) -> float:
    x, y = ctypes.c_double(), ctypes.c_double()
    api.FPDFText_GetCharOrigin(page, at, x, y)
    return x.value if turn in (90, 270) else y.value


def _find_spaces(
    page: object, letters: list[str], is_letter: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """What white space stands before each letter; what PDFium made up counts less."""
    found = np.zeros(len(letters), np.int8)
    most = 0
    for at in np.flatnonzero(~is_letter | np.append(False, ~is_letter[:-1])).tolist():
        if is_letter[at]:
            found[at], most = most, 0
        else:
            made_up = not letters[at] or api.FPDFText_IsGenerated(page, at) == 1
            most = max(most, 1 if made_up else 2)
    return found


# -- the page as it is looked at ---------------------------------------------------------------


def _find_up(turns: NDArray[np.int64], quarter: int) -> int:
    """Which way the text of a page goes, in degrees as the file has it.

    A page may be turned by its own mark, or be a wide table that was set sideways: then most of
    its text is turned the same way, and that way is up.
    """
    if not len(turns):
        return quarter
    most = int(np.bincount(turns).argmax())
    return quarter if most % 90 or (turns == most).sum() * 5 < len(turns) * 3 else most


def _turn_upright(glyphs: _Glyphs, up: int, box: tuple[float, float, float, float]) -> _Glyphs:
    left, bottom, right, top = box
    begin, end, base = glyphs.left, glyphs.right, glyphs.base
    if up == 0:
        begin, end, base = begin - left, end - left, base - bottom
    elif up == 90:
        begin, end, base = begin - bottom, end - bottom, right - base
    elif up == 180:
        begin, end, base = right - end, right - begin, top - base
    else:
        begin, end, base = top - end, top - begin, base - left
    return replace(glyphs, left=begin, right=end, base=base)


def _find_beyond(glyphs: _Glyphs, width: float, height: float) -> NDArray[np.bool_]:
    """What is beyond the page's edge; a line that begins on the page and runs over is not."""
    left, base, size = glyphs.left, glyphs.base, glyphs.size
    beyond = (left < -size) | (left > width) | (base < -size) | (base > height)
    if not beyond.any():
        return beyond
    number = np.arange(len(left))
    step = np.diff(left, prepend=np.inf)
    begins = (np.diff(base, prepend=np.inf) != 0) | (step < 0) | (step >= 2 * size)
    start = np.maximum.accumulate(np.where(begins, number, 0))
    inside = np.maximum.accumulate(np.where(beyond, -1, number))
    return beyond & (inside < start)


def _find_copies(glyphs: _Glyphs) -> NDArray[np.bool_]:
    """The copies that make letters look bold, or cast a shadow."""
    copies = np.zeros(len(glyphs), np.bool_)
    if len(glyphs) < 2:
        return copies
    codes = np.array([ord(letter[0]) for letter in glyphs.letters])
    order = np.lexsort((glyphs.left, codes))
    codes, left, base = codes[order], glyphs.left[order], glyphs.base[order]
    drawn = glyphs.drawn[order]
    step = np.maximum(0.12 * glyphs.size[order], 0.2)
    for far in range(1, min(len(order), _MAX_STEPS)):
        near = (codes[far:] == codes[:-far]) & (left[far:] - left[:-far] < step[:-far])
        if not near.any():
            break
        same = near & (abs(base[far:] - base[:-far]) < step[:-far])
        # The letters of a ligature share their place.
        same &= (
            (drawn[far:] != drawn[:-far])
            | (left[far:] != left[:-far])
            | (base[far:] != base[:-far])
        )
        copies[np.maximum(order[far:][same], order[:-far][same])] = True
    return copies


def _is_unknown(letters: str) -> bool:
    return letters == "\ufffd" or unicodedata.category(letters[0]) in ("Co", "Cn")


# -- runs --------------------------------------------------------------------------------------


class _GlyphStretch(NamedTuple):
    """Glyphs in the file's order that follow each other on a base line."""

    places: list[Span]
    """Which glyphs: from and to."""
    left: float
    right: float
    base: float
    size: float
    """The largest."""
    end_size: float
    """Of the last glyph."""

    @property
    def num_glyphs(self) -> int:
        return sum(end - start for start, end in self.places)


def _build_runs(glyphs: _Glyphs, objects: Sequence[_TextObject]) -> list[TextRun]:
    """The runs of a page, from the top to the bottom and from left to right."""
    if not len(glyphs):
        return []
    glyphs = _move_accents(glyphs)
    bold = np.array([one.font.bold for one in objects], np.bool_)[glyphs.drawn]
    mono = np.array([one.font.mono for one in objects], np.bool_)[glyphs.drawn]
    builder = _RunBuilder(glyphs, bold, mono)
    runs = [builder.build(one.places) for one in _join_stretches(_find_stretches(glyphs))]
    return sorted((run for run in runs if run.text), key=lambda run: (-run.base, run.left))


def _move_accents(glyphs: _Glyphs) -> _Glyphs:
    """Accents on the line of their letter, and after it: those of capitals stand higher.

    PDFium takes such an accent for a line of its own, or puts it at the end of one.
    """
    accents = np.flatnonzero(np.isin(glyphs.letters, _ACCENT_SIGNS)).tolist()
    if not accents or len(accents) * len(glyphs) > _MAX_ACCENTS:
        return glyphs
    is_letter = np.array([letters[-1:].isalpha() for letters in glyphs.letters], np.bool_)
    places = np.arange(len(glyphs), dtype=np.float64)
    base = glyphs.base.copy()
    for at in accents:
        middle, size = (glyphs.left[at] + glyphs.right[at]) / 2, glyphs.size[at]
        away = abs(glyphs.base - glyphs.base[at])
        under = np.flatnonzero(
            is_letter & (glyphs.left < middle) & (middle < glyphs.right) & (away < 0.5 * size)
            & (abs(glyphs.size - size) < 0.3 * size)
        )  # fmt: skip
        if len(under):
            letter = min(under.tolist(), key=lambda one: (away[one], abs(one - at)))
            base[at] = base[letter]
            if abs(letter - at) > 1:
                places[at] = letter + 0.5
    return replace(glyphs, base=base).take(np.argsort(places, kind="stable"))


def _build_aside(glyphs: _Glyphs) -> list[TextRun]:
    """What stands aside, in the file's order: its place on the page says nothing."""
    runs = []
    for start in range(0, len(glyphs), _MAX_ASIDE):
        part = glyphs.take(np.arange(start, min(start + _MAX_ASIDE, len(glyphs))))
        text = "".join(
            (" " if space else "") + letters
            for letters, space in zip(part.letters, part.space, strict=True)
        )
        left, right = float(part.left[0]), float(part.right[0])
        base, size = float(part.base[0]), float(part.size[0])
        runs.append(TextRun(text.strip(), left, right, base, size, aside=True))
    return runs


def _find_stretches(glyphs: _Glyphs) -> list[_GlyphStretch]:
    """Cut where a glyph does not follow the one before on its line."""
    left, right, base, size = glyphs.left, glyphs.right, glyphs.base, glyphs.size
    ems = np.maximum(size[1:], size[:-1])
    gap = left[1:] - right[:-1]
    follows = (gap > -0.4 * ems) & (gap < GAP * ems) & (abs(np.diff(base)) <= 0.15 * ems)
    follows |= (np.diff(left) == 0) & (np.diff(base) == 0)  # the next letter of a ligature
    starts = [0, *(np.flatnonzero(~follows) + 1).tolist()]
    bases = base[starts].tolist()
    lefts = np.minimum.reduceat(left, starts).tolist()
    rights = np.maximum.reduceat(right, starts).tolist()
    sizes = np.maximum.reduceat(size, starts).tolist()
    ends = [*starts[1:], len(left)]
    found: list[_GlyphStretch] = []
    recent: list[tuple[float, int]] = []
    """Base lines of the parts of the last stretch, and where they end."""
    for number, start in enumerate(starts):
        end = ends[number]
        part = _GlyphStretch(
            [(start, end)], lefts[number], rights[number], bases[number], sizes[number],
            float(size[end - 1]),
        )  # fmt: skip
        first_left, first_size = float(left[start]), float(size[start])
        if found and _continues(found[-1], recent, part, first_left, first_size, start, right):
            found[-1] = _merge_stretches([found[-1], part])
            recent.append((part.base, end))
        else:
            found.append(part)
            recent = [(part.base, end)]
    return found


def _continues(
    last: _GlyphStretch, recent: list[tuple[float, int]], part: _GlyphStretch, left: float,
    first_size: float, start: int, right: NDArray[np.float64],
) -> bool:  # fmt: skip
    """Small type above or below the line belongs to it when it touches the word before."""
    size = max(last.end_size, first_size)
    gap = left - float(right[start - 1])
    rise = abs(part.base - recent[-1][0])
    if not -0.4 * size < gap < GAP * size or rise >= 0.6 * size:
        return False
    if gap < -0.05 * size and rise < 0.3 * size and part.num_glyphs == 1:
        return True  # kerned under the one before, as the E of TeX is
    least = min(last.end_size, first_size)
    if _INITIAL * size < least <= _SMALL * size and gap < 0.35 * size:
        return True
    return any(abs(part.base - base) <= 0.15 * size for base, end in recent[-4:] if end > start - 6)


def _merge_stretches(parts: Sequence[_GlyphStretch]) -> _GlyphStretch:
    largest = max(parts, key=lambda one: one.size)
    return _GlyphStretch(
        [span for one in parts for span in one.places], min(one.left for one in parts),
        max(one.right for one in parts), largest.base, largest.size, parts[-1].end_size,
    )  # fmt: skip


def _join_stretches(stretches: list[_GlyphStretch]) -> list[_GlyphStretch]:
    """Stretches on one line without a wide gap are one, whatever order they came in."""
    rows: list[tuple[float, float, list[_GlyphStretch]]] = []
    for one in sorted(stretches, key=lambda one: (-one.base, one.left)):
        for row in reversed(rows[-4:]):
            if abs(row[0] - one.base) <= 0.2 * min(one.size, row[1]):
                row[2].append(one)
                break
        else:
            rows.append((one.base, one.size, [one]))
    joined: list[_GlyphStretch] = []
    for _, _, row_stretches in rows:
        here: list[_GlyphStretch] = []
        for one in sorted(row_stretches, key=lambda one: one.left):
            if here and _are_joined(here[-1], one):
                here[-1] = _merge_stretches([here[-1], one])
            else:
                here.append(one)
        joined += _join_justified(here)
    return joined


def _join_justified(row: list[_GlyphStretch]) -> list[_GlyphStretch]:
    """Words that a justified line has set far apart: the gaps between them are all the same.

    Cells of a table have gaps that differ as their texts do, or texts of one width.
    """
    joined: list[_GlyphStretch] = []
    start = 0
    while start < len(row):
        end = start + 1
        while end < len(row) and _is_justified(row[start : end + 1]):
            end += 1
        if end - start < 3:
            end = start + 1
        joined.append(_merge_stretches(row[start:end]))
        start = end
    return joined


def _is_justified(words: list[_GlyphStretch]) -> bool:
    size = max(one.size for one in words)
    gaps = [after.left - before.right for before, after in pairwise(words)]
    if max(gaps) > 3 * size or max(gaps) - min(gaps) > max(0.03 * size, 0.25):
        return False
    widths = [one.right - one.left for one in words]
    return len(words) == 2 or max(widths) - min(widths) > size


def _are_joined(last: _GlyphStretch, one: _GlyphStretch) -> bool:
    """A large initial is not of the line beside it, nor is a watermark."""
    size = min(last.size, one.size)
    if not -2 * size < one.left - last.right < GAP * size:
        return False
    return max(last.size, one.size) < 1.8 * size or (last.num_glyphs > 3 and one.num_glyphs > 3)


_ACCENTS = {
    "\u00b4": "\u0301", "`": "\u0300", "\u00a8": "\u0308", "\u02c6": "\u0302", "\u02dc": "\u0303",
    "\u02c7": "\u030c", "\u00b8": "\u0327", "\u00af": "\u0304", "\u02da": "\u030a",
    "\u02d8": "\u0306", "\u02d9": "\u0307", "\u02dd": "\u030b", "\u02db": "\u0328",
}  # fmt: skip
_MAX_ACCENTS = 50_000_000
"""Times the glyphs of a page: each looks for its letter among them."""
_ACCENT_SIGNS = np.array(list(_ACCENTS), np.object_)
_SPACING = {combining: spacing for spacing, combining in _ACCENTS.items()}
"""Accents that stand over no letter: some fonts call their quotation marks so."""


class _RunBuilder:
    """Puts the glyphs of runs in order, and spaces between their words."""

    def __init__(self, glyphs: _Glyphs, bold: NDArray[np.bool_], mono: NDArray[np.bool_]) -> None:
        self._glyphs = glyphs
        self._bold, self._mono = bold, mono
        kinds = {letters: _find_kind(letters) for letters in set(glyphs.letters.tolist())}
        found = [kinds[letters] for letters in glyphs.letters]
        self._is_word = np.array([kind[0] for kind in found], np.bool_)
        self._is_accent = np.array([kind[1] for kind in found], np.bool_)
        self._direction = np.array([kind[2] for kind in found], np.int8)

    def build(self, places: list[Span]) -> TextRun:
        glyphs = self._glyphs
        run = np.concatenate([np.arange(start, end) for start, end in places])
        directions = self._direction[run]
        is_leftward = bool((directions == -1).sum() > (directions == 1).sum())
        run = run[np.argsort(glyphs.left[run], kind="stable")]
        if is_leftward:
            run = self._order_overlaps(run)
        sizes = glyphs.size[run]
        size, base = float(sizes[0]), float(glyphs.base[run[0]])
        flat = bool((sizes == size).all() and (glyphs.base[run] == base).all())
        if not flat:
            text_sizes = sizes[~self._mono[run]]  # names in fixed width are set smaller
            mixed = 10 * len(text_sizes) > len(sizes)
            rounded = Counter(np.round(text_sizes if mixed else sizes, 1).tolist())
            size = max(rounded, key=lambda one: (rounded[one], one))
            base = float(np.median(glyphs.base[run][sizes > 0.9 * sizes.max()]))
        over = self._find_accents(run) if self._is_accent[run].any() else {}
        if over:
            run = np.array([at for at in run.tolist() if at not in over], np.int64)
        gaps = self._find_gaps(run, size, is_leftward=is_leftward)
        if is_leftward:
            order, sides = _turn_leftward(
                self._direction[run].tolist(), glyphs.letters[run].tolist()
            )
            run, gaps = run[order], gaps[sides[1:]]
        text, ends = self._spell(run, gaps, over)
        if is_leftward:
            text = _turn_brackets(text)
        raised = [] if flat else _merge_spans(
            (start, end)
            for at, (start, end) in zip(run.tolist(), ends, strict=True)
            if glyphs.size[at] <= _SMALL * size and glyphs.base[at] - base > 0.15 * size
        )  # fmt: skip
        left = float(glyphs.left[run].min())
        word_end = next((n for n, (start, _) in enumerate(ends) if " " in text[:start]), len(run))
        first = float(glyphs.right[run[word_end - 1]]) - left
        return TextRun(
            text, left, float(glyphs.right[run].max()), base, size, max(0.0, first),
            bold=bool(self._bold[run].sum() > 0.8 * len(run)),
            mono=bool(self._mono[run].sum() > 0.9 * len(run)), raised=tuple(raised),
            gaps=() if is_leftward else self._list_wide(run, gaps, _GUTTER * size, ends),
        )  # fmt: skip

    def _list_wide(
        self, run: NDArray[np.int64], gaps: NDArray[np.bool_], least: float, ends: list[Span]
    ) -> tuple[tuple[float, float, int], ...]:
        left, right = self._glyphs.left[run][1:], self._glyphs.right[run][:-1]
        return tuple(
            (float(right[at]), float(left[at]), ends[at + 1][0])
            for at in np.flatnonzero(gaps & (left - right > least)).tolist()
        )

    def _order_overlaps(self, run: NDArray[np.int64]) -> NDArray[np.int64]:
        """Letters that stand over each other, as they do in Arabic, in the order of the file."""
        left, right = self._glyphs.left, self._glyphs.right
        order = run.tolist()
        is_logical = 2 * int((np.diff(run) < 0).sum()) > len(run)
        for _ in range(_MAX_STACKED):
            swapped = False
            for place in range(len(order) - 1):
                one, two = order[place], order[place + 1]
                shared = min(right[one], right[two]) - max(left[one], left[two])
                is_over = shared > 0.5 * min(right[one] - left[one], right[two] - left[two])
                if is_over and (one < two) == is_logical:
                    order[place], order[place + 1], swapped = two, one, True
            if not swapped:
                break
        return np.array(order, np.int64)

    def _find_accents(self, run: NDArray[np.int64]) -> dict[int, int]:
        """Accents that are drawn over a letter beside them, and that letter."""
        glyphs, order = self._glyphs, run.tolist()
        over: dict[int, int] = {}
        for place, at in enumerate(order):
            if not self._is_accent[at]:
                continue
            middle = (glyphs.left[at] + glyphs.right[at]) / 2
            for near in (order[place - 1] if place else at, order[min(place + 1, len(order) - 1)]):
                is_letter = near != at and glyphs.letters[near][-1:].isalpha()
                if is_letter and glyphs.left[near] < middle < glyphs.right[near]:
                    over[at] = near
                    break
        return over

    def _spell(
        self, run: NDArray[np.int64], gaps: NDArray[np.bool_], over: dict[int, int]
    ) -> tuple[str, list[Span]]:
        """The text, and where in it the letters of each glyph are."""
        accents: dict[int, str] = {}
        for accent, letter in over.items():
            mark = self._glyphs.letters[accent]
            accents[letter] = accents.get(letter, "") + _ACCENTS.get(mark, mark)
        text, ends = "", []
        for at, letters, is_gap in zip(
            run.tolist(), self._glyphs.letters[run].tolist(), [False, *gaps.tolist()], strict=True
        ):
            if at in accents:
                letters = unicodedata.normalize("NFC", letters.replace("\u0131", "i") + accents[at])
            elif self._is_accent[at]:
                letters = _SPACING.get(letters, letters)
            if is_gap:
                text += " "
            ends.append((len(text), len(text) + len(letters)))
            text += letters
        return text, ends

    def _find_gaps(
        self, run: NDArray[np.int64], size: float, *, is_leftward: bool
    ) -> NDArray[np.bool_]:
        """Whether a space stands between two glyphs beside each other.

        A gap parts two words if it is wider than letters have it on this line: more where letters
        are spaced out, less in tight lines.
        """
        gaps = self._glyphs.left[run][1:] - self._glyphs.right[run][:-1]
        unseen, seen, usual = _WIDE, _SEEN, 0.0
        words = self._is_word[run]
        inside = np.sort(gaps[words[1:] & words[:-1]] / size)
        if len(inside) >= 3:
            usual = float(inside[len(inside) // 2])
            wider = inside[inside > usual + _TIGHT]
            if usual < -_TIGHT:  # boxes are wider than the letters in them
                unseen, seen = _WIDE + usual, _TIGHT + usual
            elif usual >= 0.12:  # spaced out: PDFium takes every gap for a space
                unseen = seen = usual + _WIDE
            elif len(wider) >= 3 and len(inside) < 20 * len(wider) < 10 * len(inside):
                half = usual + (float(wider[len(wider) // 2]) - usual) / 2
                if half > usual + _TIGHT:  # gaps between letters, and gaps between words
                    unseen, seen = min(_WIDE, half), min(_SEEN, half)
        if is_leftward:  # PDFium puts spaces beside brackets and numbers on the wrong side
            return np.asarray(gaps > _LEFTWARD * size, np.bool_)
        space = self._glyphs.space[run][1:]
        written = (space == 2) & (gaps > -0.2 * self._glyphs.size[run][1:])
        least = np.where(space == 1, seen, unseen) * size
        # An italic f hangs over on both sides: what it takes of the letter before, it has after it.
        sunk = np.where(gaps < (min(usual, 0.0) - _OVERHANG) * size, -gaps, 0)
        over = np.append(0, sunk[:-1]) * ((space == 1) & words[1:])
        return np.asarray(written | (gaps + over > least), np.bool_)


def _find_kind(letters: str) -> tuple[bool, bool, int]:
    """Whether it is of a word, whether it is an accent, and its direction (-1: leftward)."""
    direction = unicodedata.bidirectional(letters[0])
    return (
        letters[0].isalnum(),
        letters in _ACCENTS or bool(unicodedata.combining(letters[0])),
        -1 if direction in ("R", "AL") else 1 if direction == "L" else
        2 if direction in ("EN", "AN") else 0,
    )  # fmt: skip


_OPENING, _CLOSING = "([{", ")]}"
_TURNED = str.maketrans(_OPENING + _CLOSING, _CLOSING + _OPENING)


def _turn_brackets(text: str) -> str:
    """Brackets as they open and close from right to left: files have them either way."""
    turned = list(text)
    for at, letter in enumerate(text):
        if letter not in _OPENING + _CLOSING:
            continue
        before, after = text[at - 1 : at] or " ", text[at + 1 : at + 2] or " "
        if before.isspace() != after.isspace() and before.isspace() == (letter in _CLOSING):
            turned[at] = letter.translate(_TURNED)
    return "".join(turned)


def _turn_leftward(kinds: list[int], letters: list[str]) -> tuple[list[int], list[int]]:
    """The order of glyphs that run from right to left, and which gap is before each of them.

    Numbers and foreign words inside keep their own direction, with what stands between two foreign
    words or inside a number, unless it is one bracket of two.
    """
    order: list[int] = []
    sides: list[int] = []
    at = len(kinds) - 1
    while at >= 0:
        start = at
        if kinds[at] > 0:
            for further in range(at - 1, -1, -1):
                if kinds[further] < 0:
                    break
                here = "".join(letters[further : at + 1])
                is_whole = all(here.count(a) == here.count(b) for a, b in ("()", "[]", "{}"))
                is_word = 1 in kinds[further : at + 1] or start - further <= 2
                if kinds[further] > 0 and is_word and is_whole:
                    start = further
        order += range(start, at + 1)
        sides += [at, *range(start, at)]
        at = start - 1
    return order, sides


def _merge_spans(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in spans:
        if merged and merged[-1][1] == start:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged
