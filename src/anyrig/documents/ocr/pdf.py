"""PDF files in which a scanned page can be searched: the page as it is, and its words unseen on it.

Pages of a PDF stay as they are and gain the words; pictures become pages of their own. Each word
is a text object of its own, stretched over its box, in a font without strokes; so marking a word in
a viewer marks it on the picture. A page that stood on its head is shown upright.
"""

from __future__ import annotations

import ctypes
import io
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from anyrig.errors import InvalidInputError
from anyrig.storage.files import open_atomic

if TYPE_CHECKING:
    from anyrig.documents.ocr.page import OcrLine, OcrWord, Point, ReadPage

_POINTS = 72.0
_TO_UNICODE = """/CIDInit /ProcSet findresource begin
12 dict begin
begincmap
/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def
/CMapName /Adobe-Identity-UCS def
/CMapType 2 def
1 begincodespacerange
<0000> <FFFF>
endcodespacerange
{count} beginbfrange
{ranges}
endbfrange
endcmap
CMapName currentdict /CMap defineresource pop
end
end
"""


class PdfPicture(NamedTuple):
    """A page that is a picture."""

    data: bytes
    """As it came; a JPEG is put into the PDF as it is."""
    page: ReadPage
    dpi: float


class PdfWriter:
    """A PDF that is being made."""

    def __init__(self, source: Path | None = None) -> None:
        """A new one, or a copy of one whose pages gain words."""
        import pypdfium2 as pdfium

        self._pdf: Any = pdfium.PdfDocument(source) if source else pdfium.PdfDocument.new()
        self._font: Any = None
        self._kept: list[Any] = []  # what PDFium reads as long as the document is open

    def __enter__(self) -> PdfWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._pdf.close()

    def add(self, picture: PdfPicture) -> None:
        """A page with a picture, and its words."""
        read = picture.page
        scale = _POINTS / picture.dpi
        width, height = read.width * scale, read.height * scale
        page = self._pdf.new_page(width, height)
        if picture.data:
            self._draw(page, picture, width, height)
        self._write(page, read, scale, scale, height)
        page.close()

    def _draw(self, page: Any, picture: PdfPicture, width: float, height: float) -> None:
        import pypdfium2 as pdfium

        image = pdfium.PdfImage.new(self._pdf)
        self._load(image, picture.data, picture.page)
        image.set_matrix(pdfium.PdfMatrix().scale(width, height))
        page.insert_obj(image)

    def layer(self, index: int, read: ReadPage) -> None:
        """The words of a page that is there already; `index` counts from 0."""
        page = self._pdf[index]
        _drop_unseen(page)
        turned = page.get_rotation()
        width, height = page.get_size()  # as it is shown
        across, down = width / max(1, read.width), height / max(1, read.height)
        left, bottom, _, _ = page.get_cropbox()
        self._write(page, read, across, down, height, turned=turned, origin=(left, bottom))
        page.close()

    def save(self, path: Path) -> None:
        """Put it at a path, whole or not at all."""
        with open_atomic(path) as file:
            self._pdf.save(file, version=17)

    # ---------------------------------------------------------------- pictures

    def _load(self, image: Any, data: bytes, read: ReadPage) -> None:
        """A JPEG as it is; anything else as the pixels that were read."""
        if plain_jpeg(data, read):
            image.load_jpeg(io.BytesIO(data), inline=True, autoclose=True)
            return
        import pypdfium2 as pdfium
        from PIL import Image

        from anyrig.documents.ocr.picture import decode_picture

        bitmap = pdfium.PdfBitmap.from_pil(Image.fromarray(decode_picture(data)))
        image.set_bitmap(bitmap)
        bitmap.close()

    # ---------------------------------------------------------------- words

    def _write(
        self, page: Any, read: ReadPage, across: float, down: float, height: float, *,
        turned: int = 0, origin: Point = (0.0, 0.0),
    ) -> None:  # fmt: skip
        """Words onto a page, whose pixels are `across` and `down` points wide and high."""
        import pypdfium2.raw as raw

        for line in read.lines:
            for word, last in _with_last(line):
                corners = [(x * across, height - y * down) for x, y in word.box]
                placed = [_turn_back(point, turned, page.get_size(), origin) for point in corners]
                self._word(page, word.text if last else word.text + " ", placed, len(word.text))
        if read.turned_degrees and not turned:
            raw.FPDFPage_SetRotation(page, read.turned_degrees // 90)
        page.gen_content()

    def _word(self, page: Any, text: str, corners: list[Point], letters: int) -> None:
        import pypdfium2.raw as raw

        codes = text.encode("utf-16-le", "replace")
        units = [int.from_bytes(codes[n : n + 2], "little") for n in range(0, len(codes), 2)]
        obj = raw.FPDFPageObj_CreateTextObj(self._pdf, self._cid_font(), 1.0)
        array = (ctypes.c_uint32 * len(units))(*units)
        raw.FPDFText_SetCharcodes(obj, array, len(units))
        raw.FPDFTextObj_SetTextRenderMode(obj, raw.FPDF_TEXTRENDERMODE_INVISIBLE)
        _, _, (x2, y2), (x3, y3) = corners
        (x0, y0) = corners[0]
        natural = max(1, letters) * _ADVANCE / _UNITS
        a, b = (x2 - x3) / natural, (y2 - y3) / natural
        c, d = x0 - x3, y0 - y3
        if not (math.hypot(a, b) > 0 and math.hypot(c, d) > 0):
            raw.FPDFPageObj_Destroy(obj)
            return
        raw.FPDFPageObj_Transform(obj, a, b, c, d, x3, y3)
        raw.FPDFPage_InsertObject(page, obj)

    def _cid_font(self) -> Any:
        """The font without strokes, put into the document once."""
        if self._font is None:
            import pypdfium2.raw as raw

            data = build_font()
            buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
            ids = bytes(65536 * 2)
            places = (ctypes.c_uint8 * len(ids)).from_buffer_copy(ids)
            self._font = raw.FPDFText_LoadCidType2Font(
                self._pdf, buffer, len(data), to_unicode().encode(), places, len(ids)
            )
            self._kept += [buffer, places]
            if not self._font:
                raise InvalidInputError(
                    "the font of the text layer was refused", hint="Update pypdfium2."
                )
        return self._font


def _drop_unseen(page: Any) -> None:
    """Take an older layer of unseen words away, or each word would be found twice."""
    import pypdfium2.raw as raw

    unseen = [
        each
        for each in page.get_objects([raw.FPDF_PAGEOBJ_TEXT], max_depth=1)
        if raw.FPDFTextObj_GetTextRenderMode(each.raw) == raw.FPDF_TEXTRENDERMODE_INVISIBLE
    ]
    for each in unseen:
        page.remove_obj(each)
        each.close()


def to_unicode() -> str:
    """The map that says: a code is the UTF-16 unit of the same number."""
    rows = [f"<{high:02X}00> <{high:02X}FF> <{high:02X}00>" for high in range(256)]
    parts = [rows[n : n + 100] for n in range(0, len(rows), 100)]
    head, _, tail = _TO_UNICODE.partition("{count} beginbfrange\n{ranges}\nendbfrange\n")
    body = "".join(f"{len(p)} beginbfrange\n" + "\n".join(p) + "\nendbfrange\n" for p in parts)
    return head + body + tail


def _with_last(line: OcrLine) -> Iterator[tuple[OcrWord, bool]]:
    for number, word in enumerate(line.words, 1):
        yield word, number == len(line.words)


def _turn_back(point: Point, turned: int, size: tuple[float, float], origin: Point) -> Point:
    """A point of the page as it is shown, on the page as it is written."""
    x, y = point
    width, height = size
    x, y = {
        0: (x, y), 90: (height - y, x), 180: (width - x, height - y), 270: (y, width - x),
    }.get(turned % 360, (x, y))  # fmt: skip
    return x + origin[0], y + origin[1]


def plain_jpeg(data: bytes, read: ReadPage) -> bool:
    """Whether a picture may go into the PDF as it is: seen by all as it was read."""
    if not data.startswith(b"\xff\xd8\xff"):
        return False
    from PIL import Image

    with Image.open(io.BytesIO(data), formats=["JPEG"]) as image:
        upright = image.getexif().get(0x0112, 1) == 1
        return upright and image.size == (read.width, read.height) and image.mode in ("L", "RGB")


# -- the font --------------------------------------------------------------------------------------
#
# A TrueType font for text that is there to be found, not to be seen. Every character has the same
# glyph, a block half as wide as it is high, so that a viewer that marks a word marks its whole box.
# What a character means stands beside the font, in a map from its code to Unicode.

_UNITS = 1000
_ADVANCE = 500
"""How wide each character is, in thousandths of the size."""


def build_font() -> bytes:
    """The font."""
    tables = {
        b"head": _build_head(),
        b"hhea": struct.pack(
            ">IhhhHhhhhhhhhhhhH",
            0x10000,
            _UNITS,
            0,
            0,
            _ADVANCE,
            0,
            0,
            0,
            1,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            1,
        ),
        b"maxp": struct.pack(">IHHHHHHHHHHHHHH", 0x10000, 2, 4, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0),
        b"hmtx": struct.pack(">Hhh", _ADVANCE, 0, 0),
        b"cmap": _build_cmap(),
        b"loca": struct.pack(">HHH", 0, len(_build_glyph()) // 2, len(_build_glyph()) // 2),
        b"glyf": _build_glyph(),
        b"name": _build_name("Glyphless"),
        b"post": struct.pack(">IIhhIIIII", 0x30000, 0, 0, 0, 1, 0, 0, 0, 0),
        b"OS/2": _build_os2(),
    }
    return _join_tables(dict(sorted(tables.items())))


def _build_glyph() -> bytes:
    """A glyph of four corners."""
    head = struct.pack(">hhhhhHH", 1, 0, 0, _ADVANCE, _UNITS, 3, 0)
    across = struct.pack(">hhhh", 0, 0, _ADVANCE, 0)
    down = struct.pack(">hhhh", 0, _UNITS, 0, -_UNITS)
    glyph = head + b"\x01" * 4 + across + down
    return glyph + b"\0" * (-len(glyph) % 4)


def _build_head() -> bytes:
    return struct.pack(
        ">IIIIHHqqhhhhHHhhh", 0x10000, 0x10000, 0, 0x5F0F3CF5, 0, _UNITS, 0, 0, 0, 0, _ADVANCE,
        _UNITS, 0, 8, 2, 0, 0,
    )  # fmt: skip


def _build_cmap() -> bytes:
    """One segment, which every format 4 table must end with, and none before it."""
    table = struct.pack(">HHHHHHH", 4, 24, 0, 2, 2, 0, 0) + struct.pack(
        ">HHHhH", 0xFFFF, 0, 0xFFFF, 1, 0
    )
    return struct.pack(">HHHHI", 0, 1, 3, 1, 12) + table


def _build_name(text: str) -> bytes:
    encoded = text.encode("utf-16-be")
    records = b"".join(
        struct.pack(">HHHHHH", 3, 1, 0x409, number, len(encoded), 0) for number in (1, 4, 6)
    )
    return struct.pack(">HHH", 0, 3, 6 + len(records)) + records + encoded


def _build_os2() -> bytes:
    return struct.pack(
        ">HhHHHhhhhhhhhhhh10sIIII4sHHHhhhHH", 1, _ADVANCE, 400, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, b"\0" * 10, 0, 0, 0, 0, b"none", 0x40, 0, 0xFFFF, _UNITS, 0, 0, _UNITS, 0,
    ) + struct.pack(">II", 1, 0)  # fmt: skip


def _join_tables(tables: dict[bytes, bytes]) -> bytes:
    """Tables with their directory and checksums."""
    count = len(tables)
    power = 1 << (count.bit_length() - 1)
    out = struct.pack(
        ">IHHHH", 0x10000, count, power * 16, power.bit_length() - 1, count * 16 - power * 16
    )
    at = 12 + 16 * count
    body = b""
    for tag, data in tables.items():
        padded = data + b"\0" * (-len(data) % 4)
        out += struct.pack(">4sIII", tag, _checksum(padded), at, len(data))
        at += len(padded)
        body += padded
    whole = bytearray(out + body)
    where = whole.index(tables[b"head"]) + 8
    rest = (0xB1B0AFBA - _checksum(bytes(whole))) & 0xFFFFFFFF
    whole[where : where + 4] = struct.pack(">I", rest)
    return bytes(whole)


def _checksum(data: bytes) -> int:
    words: tuple[int, ...] = struct.unpack(f">{len(data) // 4}I", data)
    return sum(words) & 0xFFFFFFFF
