"""Files in pages, each with its place; pages that are pictures or garbage say so."""

from __future__ import annotations

import io
import json
import os
import sys
from email.message import EmailMessage
from pathlib import Path

import pytest
from PIL import Image

from anyrig.errors import InvalidInputError, LimitExceededError, ProtectedFileError
from anyrig.text.document import (
    Block,
    Chapter,
    Document,
    Inline,
    Metadata,
    Scan,
    document_from_json,
    document_to_json,
)
from anyrig.text.files import read
from anyrig.text.formats.limits import Limits
from tests.text.epub_maker import Page as Leaflet
from tests.text.epub_maker import epub
from tests.text.formats.pdf_making import Leaf, pdf, width_of, write
from tests.text.formats.test_pdf import TEXT, leaf
from tests.text.page_reading import list_reasons, list_sources, read_pages, render_pages
from tests.text.picture_making import sheet, squares, tiff

SCAN = "q 400 0 0 580 10 10 cm BI /W 2 /H 2 /CS /G /BPC 8 ID abcd EI Q"


def _scan(*marks: str) -> Leaf:
    made = Leaf()
    made.drawn.append(SCAN)
    for mark in marks:
        made.put(60, 30, mark)
    return made


def _png(image: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _render(path: Path, number: int, dpi: int = 300) -> bytes:
    (page,) = render_pages(path, [number], dpi)
    assert not page.error
    return page.data


def _holds(document: Document) -> Document:
    """Offsets hold in every file."""
    for page in document.parts("page"):
        assert document.text[page.start : page.start + len(page.text)] == page.text
    return document


def test_a_pdf_of_text_scans_and_blank_pages(tmp_path: Path) -> None:
    drawing = Leaf()
    drawing.drawn.append("10 10 m 300 400 l S")
    path = write(tmp_path / "a.pdf", [leaf(), _scan(), leaf(), Leaf(), drawing])
    document = _holds(read_pages(path))
    assert [page.page for page in document.parts("page")] == [1, 2, 3, 4, 5]
    assert [page.text for page in document.parts("page")] == [TEXT, "", TEXT, "", ""]
    assert list_sources(document) == ["text", "none", "text", "none", "none"]
    assert list_reasons(document) == [
        "", "a picture without a text layer", "", "", "drawn without a text layer",
    ]  # fmt: skip
    assert (document.path, document.format) == (path, "pdf")


def test_sentences_stay_on_the_page_they_stand_on(tmp_path: Path) -> None:
    leaves = []
    for word in ("first", "second", "third"):
        made = Leaf()
        made.set(60, 540, f"this is the {word} page and its words run on without an end or stop")
        made.set(60, 300, f"A new paragraph of the {word} page stands lower down on the sheet.")
        leaves.append(made)
    document = _holds(read_pages(write(tmp_path / "a.pdf", leaves)))
    for page, word in zip(document.parts("page"), ("first", "second", "third"), strict=True):
        assert page.text.count(word) == 2
        assert "\n\n" in page.text


def test_a_scan_with_a_stamp_is_a_scan_still_and_keeps_the_stamp(tmp_path: Path) -> None:
    document = read_pages(write(tmp_path / "a.pdf", [_scan("Scanned by a phone"), leaf()]))
    assert (document.parts("page")[0].text, document.scans[0].source) == ("", "none")
    assert document.scans[0].reason == "a picture with little text on it"
    assert document.scans[0].layer == "Scanned by a phone"


def test_a_garbage_layer_is_kept_out_and_not_lost(tmp_path: Path) -> None:
    shifted = "".join(chr(ord(c) - 29) if c > "=" else c for c in TEXT * 2)
    made = Leaf()
    made.set(60, 500, shifted)
    document = read_pages(write(tmp_path / "a.pdf", [made, leaf()]))
    (scan,) = document.scans
    assert (document.parts("page")[0].text, scan.reason) == ("", "its letters make no words")
    assert len(scan.layer) > 100


@pytest.mark.parametrize("drawn", [True, False])
def test_what_was_filled_in_is_text(tmp_path: Path, drawn: bool) -> None:
    look = b"/Tx BMC BT /F1 12 Tf 2 4 Td (Ann Writer) Tj ET EMC"
    stream = (
        b"<< /Type /XObject /Subtype /Form /BBox [0 0 200 20] /Length %d >>\nstream\n%s\nendstream"
    )
    said = b"/AP << /N 4 0 R >>" if drawn else b""
    field = (
        b"<< /Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (Ann Writer) /F 4 "
        b"/DA (/F1 12 Tf 0 g) /Rect [200 495 400 515] %s >>"
    )
    made = pdf([leaf()], objects=[stream % (len(look), look), field % said])
    made = made.replace(b"/Rotate 0", b"/Annots [5 0 R]").replace(
        b"/Type /Catalog", b"/Type /Catalog /AcroForm << /Fields [5 0 R] /DR << >> >>"
    )
    (tmp_path / "a.pdf").write_bytes(made)
    page = read_pages(tmp_path / "a.pdf").parts("page")[0]
    assert "Ann Writer" in page.text
    assert "harbour" in page.text


def test_a_plain_text_stays_letter_for_letter(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    text = "Chapter 1\n\n  indented,\n and wrap-\nped   lines\n\n\n\nCHAPTER 2\n\nmore\ttext\n"
    path.write_bytes(text.replace("\n", "\r\n").encode())
    document = read_pages(path)
    assert document.text == text
    assert [(page.page, page.start) for page in document.parts("page")] == [(0, 0)]


def test_chapters_have_their_titles(tmp_path: Path) -> None:
    path = epub(tmp_path / "a.epub", [
        Leaflet("a.xhtml", "<h1>One</h1><p>First words.</p>", "One"),
        Leaflet("b.xhtml", "<h1>Two</h1><p>Other words.</p>", "Two"),
    ])  # fmt: skip
    document = _holds(read_pages(path))
    assert [page.title for page in document.parts("page")] == ["One", "Two"]
    assert document.parts("page")[1].text == "Two\n\nOther words."
    (tmp_path / "a.md").write_text("# A\n\nx y\n\n# B\n\nz\n")
    assert [page.title for page in _holds(read_pages(tmp_path / "a.md")).parts("page")] == [
        "A",
        "B",
    ]


def test_a_pdf_s_pages_have_the_titles_of_its_contents(tmp_path: Path) -> None:
    entries = [(1, "One", 2, 500.0), (2, "Two", 2, 300.0), (1, "Three", 4, 500.0)]
    document = read_pages(write(tmp_path / "a.pdf", [leaf() for _ in range(4)], outline=entries))
    assert [page.title for page in document.parts("page")] == ["", "One", "Two", "Three"]


def test_pages_of_contents_have_their_role(tmp_path: Path) -> None:
    contents = Leaf().put(60, 540, "Contents", 16)
    for at in range(12):
        contents.put(60, 500 - 14 * at, f"Of boats and nets, {'abcdefghijkl'[at] * 4}")
        contents.put(360 - width_of(str(at + 2), 10), 500 - 14 * at, str(at + 2))
    document = _holds(read_pages(write(tmp_path / "a.pdf", [leaf(), contents, leaf(), leaf()])))
    assert [chapter.role for chapter in document.chapters] == ["body", "contents", "body"]
    assert "Of boats and nets" in document.parts("page")[1].text


def test_a_message_with_a_scan_can_be_drawn(tmp_path: Path) -> None:
    made = EmailMessage()
    made["Subject"] = "Scans"
    made.set_content("See what is attached.")
    write(tmp_path / "s.pdf", [leaf(), _scan()])
    tiff(tmp_path / "t.tif", [4, 5])
    for name, kind in (("s.pdf", "pdf"), ("t.tif", "tiff")):
        data = (tmp_path / name).read_bytes()
        made.add_attachment(data, maintype="application", subtype=kind, filename=name)
    path = tmp_path / "a.eml"
    path.write_bytes(bytes(made))
    document = _holds(read_pages(path))
    assert [(p.page, p.title) for p in document.parts("page")] == [
        (1, "Scans"), (2, "s.pdf"), (3, "s.pdf"), (4, "t.tif"), (5, "t.tif"),
    ]  # fmt: skip
    assert [scan.page for scan in document.scans] == [3, 4, 5]
    drawn = list(render_pages(path, [3, 4, 5]))
    assert [squares(each.data) for each in drawn[1:]] == [4, 5]
    assert drawn[0].data
    assert "no picture" in next(render_pages(path, [1])).error


def test_logos_are_left_out_and_messages_in_files_are_read(tmp_path: Path) -> None:
    inner, outer = EmailMessage(), EmailMessage()
    inner["Subject"], outer["Subject"] = "Inner", "Outer"
    inner.set_content("words within")
    inner.add_attachment(_png(sheet(3)), maintype="image", subtype="png", filename="s.png")
    outer.set_content("words without")
    outer.add_alternative("<p>words <img src='cid:logo'></p>", subtype="html")
    page = next(part for part in outer.walk() if part.get_content_type() == "text/html")
    assert isinstance(page, EmailMessage)
    logo = _png(sheet(1, (100, 100)))
    page.add_related(logo, "image", "png", cid="<logo>", filename="logo.png")
    file = bytes(inner)
    outer.add_attachment(file, maintype="application", subtype="octet-stream", filename="i.eml")
    path = tmp_path / "a.eml"
    path.write_bytes(bytes(outer))
    document = _holds(read_pages(path))
    assert [part.title for part in document.parts("page")] == [
        "Outer", "i.eml: Inner", "i.eml: s.png",
    ]  # fmt: skip
    assert [scan.page for scan in document.scans] == [3]
    assert squares(_render(path, 3)) == 3
    assert document.warnings == ("small pictures inside the message, as logos are, were left out",)
    shallow = read_pages(path, Limits(depth=0))
    assert "too many others" in shallow.warnings[1]


def test_a_page_is_drawn_at_its_size_upright_and_in_grey(tmp_path: Path) -> None:
    turned = leaf()
    turned.rotate = 90
    path = write(tmp_path / "a.pdf", [leaf(), turned])
    image = Image.open(io.BytesIO(_render(path, 1, 144)))
    assert (image.mode, image.size) == ("L", (840, 1200))
    assert Image.open(io.BytesIO(_render(path, 2, 72))).size == (600, 420)
    assert min(image.tobytes()) < 100


@pytest.mark.parametrize(
    ("limits", "message", "limit"),
    [
        (Limits(pages=2), "has 3 pages, and 2 are read at most", "pages"),
        (Limits(characters=100), "more than 100 letters", "characters"),
        (Limits(file_bytes=500), "larger than 0.0005 MB", "file_bytes"),
        (Limits(seconds=0.000_1), "longer than 0.0001 seconds", "seconds"),
    ],
)
def test_each_limit_is_one_error_that_names_it(
    tmp_path: Path, limits: Limits, message: str, limit: str
) -> None:
    path = write(tmp_path / "a.pdf", [leaf(), leaf(), leaf()])
    with pytest.raises(LimitExceededError, match=message) as caught:
        read_pages(path, limits)
    assert caught.value.limit == limit


def test_locked_and_damaged_files_end_in_their_own_error(tmp_path: Path) -> None:
    with pytest.raises(ProtectedFileError, match="protected by a password"):
        read_pages(write(tmp_path / "a.pdf", [leaf()], password="secret"))
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.4\nnothing of it\n")
    with pytest.raises(InvalidInputError, match=r"b\.pdf is not a valid PDF"):
        read_pages(tmp_path / "b.pdf")
    with pytest.raises(InvalidInputError, match="No such file"):
        read_pages(tmp_path / "none.pdf")
    (tmp_path / "c.txt").write_bytes(b"\x00\x01\x02\x03" * 50)
    with pytest.raises(InvalidInputError, match="is not text"):
        read_pages(tmp_path / "c.txt")
    (tmp_path / "d.txt").write_text("words")
    assert "can be drawn" in next(render_pages(tmp_path / "d.txt", [1])).error


@pytest.mark.skipif(sys.platform != "linux", reason="names are Unicode there")
def test_a_name_that_is_no_unicode(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9 \n.txt"))
    path.write_text("words")
    assert read_pages(path).text == "words"
    path.write_bytes(b"")
    with pytest.raises(InvalidInputError) as caught:
        read_pages(path)
    assert "\n" not in caught.value.message
    caught.value.message.encode()


def test_a_book_of_a_pdf_knows_the_page_of_every_word(tmp_path: Path) -> None:
    leaves = []
    for number in (1, 2, 3):
        made = Leaf()
        top = f"word{number} and more of the same sentence that does not end on this page of it"
        made.set(60, 540, top if number > 1 else f"Once word1 {top}")
        leaves.append(made)
    document = read(write(tmp_path / "a.pdf", leaves))
    assert len([block for block in document.blocks if block.kind == "paragraph"]) == 1
    assert [part.page for part in _holds(document).parts("page")] == [1, 2, 3]
    for number in (1, 2, 3):
        assert document.page_at(document.text.index(f"word{number}")) == number


def test_a_document_passes_through_json() -> None:
    inline = Inline(0, 3, "noteref", "n1")
    block = Block("Some words here.", "quote", 2, "fr", "id", 3, (inline,), ((5, 4),))
    chapter = Chapter("One", (block, Block("Plain.")), 2, "notes", "a.xhtml#x")
    scan = Scan(5, "a picture without a text layer", "layer")
    metadata = Metadata("Title", ("Ann", "Bo"), "fr", subjects=("sea",))
    document = Document(metadata, (chapter,), None, "epub", ("odd",), scans=(scan,))
    assert document_from_json(json.loads(json.dumps(document_to_json(document)))) == document
