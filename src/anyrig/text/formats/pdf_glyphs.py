"""A PDF's page by PDFium: its glyphs, upright and once each, as pieces of lines.

PDFium is asked per character for the letter, the origin and the box, and per text object for what
all its characters share; more calls would cost more than all the rest of the reading.
"""

from __future__ import annotations

import ctypes
import math
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from anyrig.text.formats.pdf_page import Glyph, Page
from anyrig.text.formats.pdf_pieces import pieces_of

if TYPE_CHECKING:
    import pypdfium2 as pdfium

_HYPHENS = {0x02: "-", 0xFFFE: "-"}  # PDFium's marks for a hyphen at a line's end
_FLAG_FIXED, _FLAG_FORCE_BOLD = 1, 1 << 18
_FAR = 1e6  # points; also no number at all
_UNSEEN = (3, 7)  # render modes that put nothing on paper


class Look(NamedTuple):
    """What the characters of one text object share."""

    size: float
    turn: int
    """Degrees against the page, as the file has it."""
    bold: bool
    mono: bool
    unseen: bool
    drawn: int = 0
    """Which text object it is."""


class Drawn(NamedTuple):
    """A character as the file draws it, which may be sideways."""

    letters: str
    left: float
    """Along the line, as `right` is; `base` is across it."""
    right: float
    base: float
    look: Look
    space: int


class TooMuchText(Exception):
    """A page has more characters than anyone prints."""


def read_page(document: pdfium.PdfDocument, index: int, most: int) -> Page:
    """One page of an open document.

    Args:
        document: open.
        index: counted from 0.
        most: characters; more is `TooMuchText`.
    """
    page = document[index]
    try:
        text = page.get_textpage()
        try:
            if text.count_chars() > most:
                raise TooMuchText
            raw = list(_characters(text.raw, text.count_chars()))
        finally:
            text.close()
        up = _up(raw, page.get_rotation() % 360)
        left, bottom, right, top = page.get_bbox()
        width, height = right - left, top - bottom
        if up in (90, 270):
            width, height = height, width
        drop_unseen = _drop_unseen(raw)
        glyphs = _once(
            _keep_long_lines(
                [_upright(each, up, (left, bottom, right, top), drop_unseen) for each in raw]
            )
        )
        return Page(
            number=index + 1, width=width, height=height, pieces=pieces_of(glyphs),
            label=document.get_page_label(index) or "",
            num_glyphs=len(raw), num_unknown=sum(_unknown(each.letters) for each in raw),
            picture=not glyphs and _is_picture(page, width * height),
        )  # fmt: skip
    finally:
        page.close()


def _characters(text: object, count: int) -> Iterator[Drawn]:
    """Every character with its look; what PDFium made up itself becomes a space before the next."""
    import pypdfium2.raw as api

    x, y, box = ctypes.c_double(), ctypes.c_double(), api.FS_RECTF()
    looks: dict[int, Look] = {}
    space = 0
    for number in range(count):
        letters = _letters(api.FPDFText_GetUnicode(text, number))
        if not letters or letters.isspace():
            made_up = not letters or api.FPDFText_IsGenerated(text, number) == 1
            space = max(space, 1 if made_up else 2)
            continue
        key = ctypes.cast(api.FPDFText_GetTextObject(text, number), ctypes.c_void_p).value or 0
        look = looks.get(key)
        if look is None:
            look = looks[key] = _look(text, number)._replace(drawn=len(looks))
        api.FPDFText_GetCharOrigin(text, number, x, y)
        api.FPDFText_GetLooseCharBox(text, number, box)
        if look.turn in (90, 270):
            left, right, base = box.bottom, box.top, x.value
        else:
            left, right, base = box.left, box.right, y.value
        if abs(left) < _FAR and abs(right) < _FAR and abs(base) < _FAR:
            yield Drawn(letters, left, right if right > left else left, base, look, space)
        space = 0


def _letters(code: int) -> str:
    """The letters that a code stands for: ligatures are taken apart, accents put together."""
    if code < 0x7F:
        if code in _HYPHENS:
            return _HYPHENS[code]
        return chr(code) if code >= 0x20 else ("" if code else "\ufffd")
    if code in _HYPHENS:
        return _HYPHENS[code]
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        return "\ufffd"
    letter = chr(code)
    if 0xFB00 <= code <= 0xFB06 or 0x0132 <= code <= 0x0133:
        return unicodedata.normalize("NFKC", letter)
    if unicodedata.category(letter) in ("Cc", "Zl", "Zp") or code in (0xFEFF, 0x200B):
        return ""
    return " " if letter.isspace() else letter


def _look(text: object, number: int) -> Look:
    """What this character's text object looks like."""
    import pypdfium2.raw as api

    matrix = api.FS_MATRIX()
    scale, turn = 1.0, 0
    if api.FPDFText_GetMatrix(text, number, matrix):
        scale = math.hypot(matrix.c, matrix.d) or 1.0
        turn = round(math.degrees(math.atan2(matrix.b, matrix.a))) % 360
    size = abs(api.FPDFText_GetFontSize(text, number) * scale)
    flags, name = ctypes.c_int(), ctypes.create_string_buffer(128)
    api.FPDFText_GetFontInfo(text, number, name, 128, flags)
    said = name.value.decode("utf-8", "replace").lower()
    bold = (
        any(word in said for word in ("bold", "black", "heavy", "cmbx", "demi"))
        or bool(flags.value & _FLAG_FORCE_BOLD)
        or api.FPDFText_GetFontWeight(text, number) >= 650
    )
    mono = bool(flags.value & _FLAG_FIXED) or any(
        word in said for word in ("courier", "mono", "cmtt", "consolas", "menlo")
    )
    drawn = api.FPDFText_GetTextObject(text, number)
    unseen = bool(drawn) and api.FPDFTextObj_GetTextRenderMode(drawn) in _UNSEEN
    return Look(size if 0.5 < size < 2000 else 1.0, turn, bold, mono, unseen)


def _up(raw: list[Drawn], quarter: int) -> int:
    """Which way the text of a page goes, in degrees as the file has it.

    A page may be turned by its own mark, or be a wide table that was set sideways: then most of
    its text is turned the same way, and that way is up.
    """
    turns = Counter(each.look.turn for each in raw)
    most = turns.most_common(1)[0][0] if turns else quarter
    return quarter if most % 90 or turns[most] * 5 < len(raw) * 3 else most


def _upright(
    drawn: Drawn, up: int, box: tuple[float, float, float, float], drop_unseen: bool
) -> Glyph:
    """A glyph in the measure of the page as it is read.

    What is turned otherwise, unseen or beyond the page's edge stands aside.
    """
    letters, begin, end, base, look, space = drawn
    left, bottom, right, top = box
    width, height = right - left, top - bottom
    if up == 0:
        begin, end, base = begin - left, end - left, base - bottom
    elif up == 90:
        begin, end, base = begin - bottom, end - bottom, right - base
        width, height = height, width
    elif up == 180:
        begin, end, base = right - end, right - begin, top - base
    else:
        begin, end, base = top - end, top - begin, base - left
        width, height = height, width
    size = look.size
    aside = (
        look.turn != up
        or (look.unseen and drop_unseen)
        or not (-size <= begin <= width and -size <= base <= height)
    )
    return Glyph(letters, begin, end, base, size, look.bold, look.mono, aside, space, look.drawn)


def _keep_long_lines(glyphs: list[Glyph]) -> list[Glyph]:
    """A line that begins on the page and runs over its edge is one line still."""
    made: list[Glyph] = []
    for glyph in glyphs:
        before = made[-1] if made else None
        if (
            glyph.aside
            and before is not None
            and not before.aside
            and glyph.base == before.base
            and glyph.size == before.size
            and 0 <= glyph.left - before.left < 2 * glyph.size
        ):
            glyph = glyph._replace(aside=False)
        made.append(glyph)
    return made


def _drop_unseen(raw: list[Drawn]) -> bool:
    """Unseen text stands aside, unless it is most of the page: a scan's own text layer."""
    return 2 * sum(each.look.unseen for each in raw) <= len(raw)


def _once(glyphs: list[Glyph]) -> list[Glyph]:
    """Without the copies that make letters look bold, or cast a shadow."""
    places: dict[str, list[tuple[float, int]]] = {}
    for number, glyph in enumerate(glyphs):
        places.setdefault(glyph.text, []).append((glyph.left, number))
    copies: set[int] = set()
    for same in places.values():
        same.sort()
        for place, (left, number) in enumerate(same):
            step = max(0.12 * glyphs[number].size, 0.2)
            for near in range(place + 1, len(same)):
                other_left, other = same[near]
                if other_left - left >= step:
                    break
                if _is_copy(glyphs[number], glyphs[other], step):
                    copies.add(max(number, other))
    return [glyph for number, glyph in enumerate(glyphs) if number not in copies]


def _is_copy(one: Glyph, other: Glyph, step: float) -> bool:
    """Whether two of the same letter are one; the letters of a ligature share their place."""
    ligature = one.drawn == other.drawn and one.left == other.left and one.base == other.base
    return abs(one.base - other.base) < step and not ligature


def _unknown(letters: str) -> bool:
    return letters == "\ufffd" or unicodedata.category(letters[0]) in ("Co", "Cn")


def _is_picture(page: pdfium.PdfPage, area: float) -> bool:
    """Whether pictures cover a good part of a page without text."""
    import pypdfium2.raw as api

    covered = 0.0
    for drawn in page.get_objects(filter=[api.FPDF_PAGEOBJ_IMAGE], max_depth=3):
        left, bottom, right, top = drawn.get_bounds()
        covered += abs((right - left) * (top - bottom))
    return covered > 0.25 * area
