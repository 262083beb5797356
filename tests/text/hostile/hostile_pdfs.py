"""PDFs whose tables lie, whose trees are circles and whose streams have no end."""

# ruff: noqa: E501 - a hostile text is a line, however long
from __future__ import annotations

import zlib
from pathlib import Path

from tests.text.formats.pdf_making import Leaf, pdf
from tests.text.hostile.hostile_archives import zeros
from tests.text.hostile.hostile_kinds import as_is, hostile

FONT = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"


def whole(*objects: bytes, root: int = 1, trailer: bytes = b"") -> bytes:
    """A file of objects as they are, with a table that is right."""
    out, places = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(places) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root %d 0 R %s >>\n" % (len(places) + 1, root, trailer)
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % start)


def stream(data: bytes, more: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n" % (len(data), more) + data + b"\nendstream"


def small(content: bytes, *more: bytes, box: bytes = b"0 0 420 600", catalog: bytes = b"",
          page: bytes = b"", trailer: bytes = b"") -> bytes:  # fmt: skip
    """A page with content as given; further objects from number 6."""
    return whole(
        b"<< /Type /Catalog /Pages 2 0 R " + catalog + b" >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [" + box + b"] /Contents 5 0 R /Resources << /Font"
        b" << /F1 4 0 R >> /XObject << /X 6 0 R >> >> " + page + b" >>",
        FONT, content, *more, trailer=trailer,
    )  # fmt: skip


def said(text: bytes = b"Some words of it.") -> bytes:
    return b"BT /F1 12 Tf 50 500 Td (" + text + b") Tj ET\n"


def honest() -> bytes:
    leaf = Leaf()
    leaf.set(50, 500, "It was a dark night, and the clock struck nine. " * 20)
    return pdf([leaf, leaf, leaf])


def _deep(opening: bytes, closing: bytes, times: int) -> bytes:
    return opening * times + closing * times


BOMB = zlib.compress(zlib.compress(bytes(60 << 20), 9), 9)
FILES: dict[str, object] = {
    "pdf_with_a_false_table": lambda: honest().replace(b"00000 n", b"99999 n"),
    "pdf_whose_table_points_nowhere": lambda: honest().replace(b"startxref\n", b"startxref\n9999999"),
    "pdf_without_a_table": lambda: honest()[: honest().index(b"xref\n")],
    "pdf_cut_in_half": lambda: honest()[: len(honest()) // 2],
    "pdf_whose_tables_lead_in_a_circle": lambda: small(stream(said()), trailer=b"/Prev 9 /XRefStm 9"),
    "pdf_of_no_pages": lambda: whole(b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [] /Count 0 >>"),
    "pdf_without_a_root": lambda: small(stream(said())).replace(b"/Root 1 0 R", b"/Root 99 0 R"),
    "pdf_of_a_million_pages": lambda: small(stream(said())).replace(b"/Count 1 ", b"/Count 1000000 "),
    "pdf_of_minus_one_page": lambda: small(stream(said())).replace(b"/Count 1 ", b"/Count -1 "),
    "pdf_of_one_page_400_times": lambda: small(stream(said())).replace(
        b"/Kids [3 0 R] /Count 1 ", b"/Kids [" + b"3 0 R " * 400 + b"] /Count 400 "
    ),
    "pdf_of_pages_in_a_circle": lambda: whole(
        b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R 3 0 R] /Count 9 >>",
        b"<< /Type /Pages /Kids [2 0 R 3 0 R] /Count 9 /Parent 3 0 R >>",
    ),
    "pdf_of_pages_5000_deep": lambda: whole(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        *(b"<< /Type /Pages /Kids [%d 0 R] /Count 1 >>" % (n + 3) for n in range(5000)),
    ),
    "pdf_of_absurd_pages": lambda: small(stream(said()), box=b"-1e30 -1e30 1e30 1e30"),
    "pdf_of_flat_pages": lambda: small(stream(said()), box=b"0 0 0 0"),
    "pdf_of_broken_boxes": lambda: small(stream(said()), box=b"(a) null /b 1e999"),
    "pdf_of_huge_units": lambda: small(stream(said()), page=b"/UserUnit 1e9 /Rotate 12345"),
    "pdf_of_a_stream_bomb": lambda: small(stream(BOMB, b"/Filter [/FlateDecode /FlateDecode]")),
    "pdf_of_a_stream_of_filters": lambda: small(stream(b"x" * 99, b"/Filter [" + b"/ASCIIHexDecode " * 5000 + b"]")),
    "pdf_that_lies_of_its_length": lambda: small(stream(said()).replace(b"/Length ", b"/Length 99999")),
    "pdf_whose_length_is_itself": lambda: small(b"<< /Length 5 0 R >>\nstream\n" + said() + b"endstream"),
    "pdf_of_forms_in_themselves": lambda: small(
        stream(said() + b"/X Do"),
        stream(b"/X Do /X Do " + said(), b"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 6 0 R >> /Font << /F1 4 0 R >> >>"),
    ),
    "pdf_of_forms_that_double": lambda: small(
        stream(said() + b"/X Do"),
        *(stream(b"/X Do " * 10 + said(), b"/Type /XObject /Subtype /Form /BBox [0 0 999 999] /Resources << /XObject << /X %d 0 R >> /Font << /F1 4 0 R >> >>" % (n + 7)) for n in range(9)),
    ),
    "pdf_of_deep_arrays": lambda: small(stream(said()), page=b"/X " + _deep(b"[", b"]", 100_000)),
    "pdf_of_deep_dictionaries": lambda: small(stream(said()), catalog=b"/X " + _deep(b"<</A ", b">>", 50_000)),
    "pdf_of_deep_states": lambda: small(stream(b"q " * 500_000 + said())),
    "pdf_of_many_letters": lambda: small(stream(said(b"word " * 400_000))),
    "pdf_of_letters_at_one_place": lambda: small(stream(b"BT /F1 12 Tf 50 500 Td " + b"(a) Tj 0 0 Td " * 20_000 + b"ET")),
    "pdf_of_letters_everywhere": lambda: small(stream(
        b"BT /F1 1 Tf " + b"".join(b"1 0 0 1 %d %d Tm (a) Tj " % (n * 7919 % 420, n * 104_729 % 600) for n in range(6_000)) + b"ET"
    )),
    "pdf_of_absurd_numbers": lambda: small(stream(b"BT /F1 1e38 Tf 1e38 -1e38 Td (a b) Tj /F1 0 Tf (c) Tj /F1 -5 Tf (d) Tj ET" + said())),
    "pdf_of_infinite_matrices": lambda: small(stream(b"1e30 0 0 1e30 0 0 cm 1e30 0 0 1e30 0 0 cm " + said() + b"0 0 0 0 0 0 cm " + said())),
    "pdf_with_an_unknown_lock": lambda: small(stream(said()), b"<< /Filter /Nobody /V 9 /R 99 >>", trailer=b"/Encrypt 6 0 R /ID [<00> <00>]"),
    "pdf_with_a_broken_lock": lambda: small(stream(said()), b"<< /Filter /Standard /V 5 /R 6 /O <00> /U <00> /P 1e99 >>", trailer=b"/Encrypt 6 0 R"),
    "pdf_that_wants_to_run": lambda: small(
        stream(said()), catalog=b"/OpenAction << /S /JavaScript /JS (while(true){}) >> /AA << /WC << /S /Launch /F (/bin/sh) >> >>",
        page=b"/AA << /O << /S /URI /URI (http://127.0.0.1:9/) >> >>",
    ),
    "pdf_whose_outline_is_a_circle": lambda: small(
        stream(said()), b"<< /Type /Outlines /First 7 0 R /Last 7 0 R /Count 9 >>",
        b"<< /Title (A) /Next 8 0 R /First 7 0 R /Dest [3 0 R /Fit] >>", b"<< /Title (B\\033[2J) /Next 7 0 R /Prev 7 0 R >>",
        catalog=b"/Outlines 6 0 R",
    ),
    "pdf_of_an_outline_of_4000": lambda: small(
        stream(said()), b"<< /Type /Outlines /First 7 0 R >>",
        *(b"<< /Title (Line %d) /Next %d 0 R /Dest [3 0 R /XYZ 0 %d 0] >>" % (n, n + 8, n % 600) for n in range(4_000)),
        catalog=b"/Outlines 6 0 R",
    ),
    "pdf_of_an_outline_3000_deep": lambda: small(
        stream(said()), b"<< /Type /Outlines /First 7 0 R >>",
        *(b"<< /Title (Line) /First %d 0 R /Dest [3 0 R /Fit] >>" % (n + 8) for n in range(3000)), catalog=b"/Outlines 6 0 R",
    ),
    "pdf_of_a_long_title": lambda: small(
        stream(said()), b"<< /Title (" + b"x\\033[2J\\n" * 300_000 + b") /Author (\\000\\001\x9b) /CreationDate (D:99999999) >>", trailer=b"/Info 6 0 R",
    ),
    "pdf_of_an_absurd_picture": lambda: small(
        stream(said() + b"q 400 0 0 600 0 0 cm /X Do Q"),
        stream(zlib.compress(bytes(1000)), b"/Type /XObject /Subtype /Image /Width 2000000000 /Height 2000000000 /BitsPerComponent 8 /ColorSpace /DeviceRGB /Filter /FlateDecode"),
    ),
    "pdf_of_object_streams_in_a_circle": lambda: whole(
        b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        stream(b"3 0 << >>", b"/Type /ObjStm /N 1000000000 /First 4 /Extends 3 0 R"),
    ),
    "pdf_with_a_noisy_middle": lambda: honest()[:300] + bytes(range(256)) * 20 + honest()[900:],
    "pdf_of_many_objects_that_are_none": lambda: honest() + b"9 0 obj\n" * 200_000,
    "pdf_after_a_megabyte_of_noise": lambda: b"%PDF-1.4\n" + b"\xff" * 1_000_000 + honest(),
    "pdf_of_nuls": lambda: b"%PDF-1.7\n" + bytes(2_000_000),
    "pdf_whose_letters_have_no_meaning": lambda: small(stream(said(b"\\001\\002\\003" * 5000))),
}  # fmt: skip

for _name, _make in FILES.items():
    as_is(_name, "book.pdf", "either", _make)  # type: ignore[arg-type]


@hostile("either", slow=True)
def pdf_of_a_flat_bomb(folder: Path) -> Path:
    """A gigabyte of nothing in one stream."""
    raw = b"\x78\xda" + zeros(1 << 30) + bytes(4)
    path = folder / "book.pdf"
    path.write_bytes(small(stream(raw, b"/Filter /FlateDecode")))
    return path
