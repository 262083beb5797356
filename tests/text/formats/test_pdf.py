"""PDFs that are locked, scanned, damaged or hostile end in one clear sentence."""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import sys
import zlib
from pathlib import Path

import pytest
from PIL import Image

from anyrig.errors import InvalidInputError, ProtectedFileError
from anyrig.text.files import read as read_any
from anyrig.text.formats import pdf as reader
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.pdf import read
from anyrig.text.formats.pdf_about import authors_of, title_of
from tests.text.formats.pdf_making import Leaf, pdf, write

TEXT = "The harbour lay still under a low grey sky and the boats did not move at their ropes."


def leaf() -> Leaf:
    made = Leaf()
    made.set(60, 500, TEXT)
    return made


def scan(path: Path, pages: int) -> Path:
    """Pages that are pictures, as a scanner makes them."""
    sheets = [Image.new("RGB", (400, 600), (250, 250, 240)) for _ in range(pages)]
    sheets[0].save(path, "PDF", save_all=True, append_images=sheets[1:])
    return path


def test_what_a_file_says_of_itself(tmp_path: Path) -> None:
    path = write(
        tmp_path / "book.pdf", [leaf()], language="en-GB",
        about={"Title": "The Nét", "Author": "Ann Writer; Bo Other", "Subject": "Of boats",
               "Keywords": "sea, boats", "CreationDate": "D:20190203120000Z"},
    )  # fmt: skip
    about = read_any(path).about
    assert (about.title, about.authors) == ("The Nét", ("Ann Writer", "Bo Other"))
    assert (about.language, about.year, about.description) == ("en-GB", "2019", "Of boats")
    assert about.subjects == ("sea", "boats")


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("Microsoft Word - chapter one.doc", ""), ("untitled", ""), ("Untitled-1", ""),
        ("draft.tex", ""), ("book.indd", ""), ("", ""), ("???", ""), ("Document1", ""),
        ("Untitled Love", "Untitled Love"), ("The Book of Sand", "The Book of Sand"),
        ("1984", "1984"), ("Title Deeds", "Title Deeds"),
    ],
)  # fmt: skip
def test_a_program_s_title_is_none(said: str, title: str) -> None:
    assert title_of(said) == title


def test_authors_are_people() -> None:
    assert authors_of("Ann Writer and Bo Other") == ("Ann Writer", "Bo Other")
    assert authors_of("Administrator") == ()
    assert authors_of("Alexander Sandy") == ("Alexander Sandy",)


def test_the_first_page_is_the_cover(tmp_path: Path) -> None:
    cover = read(write(tmp_path / "book.pdf", [leaf(), leaf()]), Limits()).cover
    assert cover is not None
    image = Image.open(io.BytesIO(cover.data))
    assert image.format == "JPEG"
    assert max(image.size) == 1400
    assert abs(image.size[0] / image.size[1] - 420 / 600) < 0.01


def test_an_empty_password_opens(tmp_path: Path) -> None:
    path = write(tmp_path / "book.pdf", [leaf()], password="", about={"Title": "The Net"})
    document = read(path, Limits())
    assert document.about.title == "The Net"
    assert document.chapters[0].blocks[0].text == TEXT


def test_a_password_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "book.pdf", [leaf()], password="secret")
    with pytest.raises(ProtectedFileError, match="book.pdf is locked by a password") as caught:
        read_any(path)
    assert "without the password" in caught.value.hint


def test_an_unknown_lock_is_refused(tmp_path: Path) -> None:
    made = pdf([leaf()], password="").replace(b"/Filter /Standard", b"/Filter /EBX_HANDL")
    path = tmp_path / "book.pdf"
    path.write_bytes(made)
    with pytest.raises(ProtectedFileError, match="locked"):
        read_any(path)


def test_a_scan_is_named_with_its_pages(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="pages 1-3 are pictures without text") as caught:
        read_any(scan(tmp_path / "scan.pdf", 3))
    assert "ocr" in caught.value.hint


def test_blank_pages_are_no_book(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="pages 1-2 are without any text"):
        read_any(write(tmp_path / "book.pdf", [Leaf(), Leaf()]))


def test_letters_without_meaning_are_refused(tmp_path: Path) -> None:
    codes = " ".join(f"<{code:02X}> <{0xE000 + code:04X}>" for code in range(32, 127))
    table = (
        "/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def"
        " 1 begincodespacerange <00> <FF> endcodespacerange"
        f" 95 beginbfchar {codes} endbfchar endcmap end end"
    ).encode()
    stream = f"<< /Length {len(table)} >>\nstream\n".encode() + table + b"\nendstream"
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Times-Roman /ToUnicode 5 0 R >>"
    page = Leaf().put(60, 500, TEXT, font="F9")
    path = write(tmp_path / "book.pdf", [page], extra_fonts={"F9": font}, objects=[stream])
    with pytest.raises(InvalidInputError, match="does not say which letters it shows"):
        read_any(path)


def test_scanned_pages_among_others_are_a_warning(tmp_path: Path) -> None:
    wide = Leaf()
    wide.drawn.append("q 400 0 0 580 10 10 cm BI /W 2 /H 2 /CS /G /BPC 8 ID abcd EI Q")
    document = read_any(write(tmp_path / "book.pdf", [leaf(), wide, leaf()]))
    assert document.warnings == ("page 2 is pictures without text",)


@pytest.mark.parametrize("seed", range(12))
def test_damaged_files_end_in_one_error_or_in_text(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    data = bytearray(pdf([leaf(), leaf()], about={"Title": "The Net"}))
    if seed < 4:
        data = data[: chance.randrange(20, len(data))]
    else:
        for _ in range(40):
            data[chance.randrange(9, len(data))] = chance.randrange(256)
    path = tmp_path / "book.pdf"
    path.write_bytes(bytes(data))
    with contextlib.suppress(InvalidInputError):  # any other error fails the test
        assert read_any(path).chapters


@pytest.mark.parametrize(
    "body",
    [
        b"%PDF-1.7\n",
        b"%PDF-1.4\ntrailer << /Root 1 0 R >>\n%%EOF",
        b"%PDF-1.4\n1 0 obj << /Type /Catalog /Pages 1 0 R /Kids [1 0 R] >> endobj\n"
        b"trailer << /Root 1 0 R >>\n%%EOF",
        b"%PDF-1.4\n" + random.randbytes(5000),
    ],
)
def test_what_is_hardly_a_pdf(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "book.pdf"
    path.write_bytes(body)
    with pytest.raises(InvalidInputError):
        read_any(path)


def test_too_many_pages_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_PAGES", 3)
    path = write(tmp_path / "book.pdf", [leaf()] * 4)
    with pytest.raises(InvalidInputError, match="4 pages"):
        read(path, Limits())


def test_a_page_that_unpacks_without_end_is_refused(tmp_path: Path) -> None:
    drawn = (b"BT /F1 1 Tf 1 0 0 1 9 %d Tm (%s) Tj ET\n" % (n, b"ab" * 500) for n in range(600))
    packed = zlib.compress(b"".join(drawn), 9)
    bomb = Leaf()
    path = tmp_path / "book.pdf"
    data = pdf([bomb])
    old = zlib.compress(b"")
    path.write_bytes(data.replace(f"/Length {len(old)}".encode(), f"/Length {len(packed)}".encode())
                     .replace(old, packed))  # fmt: skip
    with pytest.raises(InvalidInputError, match="more than 400,000 letters on page 1|too long"):
        read_any(path)


def test_too_many_letters_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "book.pdf", [leaf()] * 4)
    with pytest.raises(InvalidInputError, match="more than 100 letters"):
        read(path, Limits(characters=100))


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in place of the one that reads: what is written to it is what it does."""
    program = tmp_path / "python"
    monkeypatch.setattr(sys, "executable", str(program))
    return program


def becomes(program: Path, body: str) -> None:
    real = os.path.realpath("/proc/self/exe")
    program.write_text(f"#!{real}\nimport os, sys, time\n{body}\n")
    program.chmod(0o755)


def test_a_crash_of_the_reading_process_is_one_error(tmp_path: Path, stand_in: Path) -> None:
    path = write(tmp_path / "book.pdf", [leaf()])
    becomes(stand_in, f"os.kill(os.getpid(), {int(signal.SIGSEGV)})")
    with pytest.raises(InvalidInputError, match="damaged"):
        read(path, Limits())


def test_a_page_that_never_ends_is_one_error(
    tmp_path: Path, stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_SILENT_S", 0.5)
    path = write(tmp_path / "book.pdf", [leaf()])
    becomes(stand_in, """print('{"page": 6, "of": 9}', flush=True); time.sleep(60)""")
    with pytest.raises(InvalidInputError, match="nothing came of page 7"):
        read(path, Limits())


def test_a_cover_that_cannot_be_drawn_costs_no_text(
    tmp_path: Path, stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_COVER_S", 0.5)
    path = write(tmp_path / "book.pdf", [leaf()])
    real = os.path.realpath("/proc/self/exe")
    becomes(
        stand_in,
        "import subprocess\n"
        f"said = subprocess.run([{real!r}, *sys.argv[1:]], capture_output=True).stdout\n"
        "lines = [line for line in said.splitlines(True) if not line.startswith(b'{\"cover')]\n"
        "os.write(1, b''.join(lines)); time.sleep(60)",
    )
    document = read(path, Limits())
    assert document.cover is None
    assert document.chapters[0].blocks[0].text == TEXT
