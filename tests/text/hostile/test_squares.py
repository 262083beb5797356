"""Files whose parts are so many that whatever takes the square of their number takes minutes."""

from __future__ import annotations

import base64
import gzip
import random
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError
from anyrig.text import sandbox
from anyrig.text.document import Document
from anyrig.text.formats.limits import Limits
from anyrig.text.sandbox import Form, ReaderPool

_LIMITS = Limits(seconds=15)
"""Of CPU time; each of these files took more, and takes two or three."""
_WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:wp="urn:wp"'
_CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
    '<rootfile full-path="book.opf"/></rootfiles></container>'
)
_PAGE = "<html><body><p>Hello, world.</p></body></html>"


@pytest.fixture(autouse=True)
def _on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only CPU time counts here."""
    monkeypatch.setattr(sandbox, "_WALL_FACTOR", 100)


def _read(path: Path, form: Form = "book") -> Document:
    with ReaderPool(limits=_LIMITS) as pool:
        return pool.read_file(path, form=form)


def _write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def _zip(path: Path, members: Iterable[tuple[str, str]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members:
            archive.writestr(name, text)
    return path


def _docx(path: Path, body: str) -> Path:
    text = f"<w:document {_WORD}><w:body>{body}</w:body></w:document>"
    return _zip(path, [("word/document.xml", text)])


def _epub(path: Path, page: str = _PAGE, metadata: str = "<title>A book</title>") -> Path:
    package = (
        f"<package><metadata>{metadata}</metadata><manifest>"
        '<item id="p" href="p.xhtml" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="p"/></spine></package>'
    )
    members = [("META-INF/container.xml", _CONTAINER), ("book.opf", package), ("p.xhtml", page)]
    return _zip(path, members)


def _xlsx(path: Path, sheet: str) -> Path:
    strings = "<sst><si><t>a</t></si></sst>"
    members = [("xl/workbook.xml", "<workbook/>"), ("xl/sharedStrings.xml", strings)]
    return _zip(path, [*members, ("xl/worksheets/sheet1.xml", sheet)])


def test_pictures_in_one_paragraph(tmp_path: Path) -> None:
    pictures = "".join(
        f'<w:drawing><wp:docPr descr="picture number {number}"/></w:drawing>'
        for number in range(50_000)
    )
    text = "<w:p><w:r><w:t>words</w:t></w:r></w:p>"
    path = _docx(tmp_path / "a.docx", f"<w:p><w:r>{pictures}</w:r></w:p>{text}")
    kinds = [block.kind for chapter in _read(path).chapters for block in chapter.blocks]
    assert kinds.count("image") == 50_000


def test_lines_of_one_listing(tmp_path: Path) -> None:
    style = '<w:pPr><w:pStyle w:val="Code"/></w:pPr>'
    line = f"<w:p>{style}<w:r><w:t>{'total = total + 1 ; ' * 30}</w:t></w:r></w:p>"
    document = _read(_docx(tmp_path / "a.docx", line * 25_000))
    (block,) = document.blocks
    assert (block.kind, block.text.count("\n")) == ("code", 24_999)


def test_references_to_a_note_without_end(tmp_path: Path) -> None:
    links = "word<a href='#x'><sup>1</sup></a> " * 20_000
    rest = f"<div id=x>{'<hr>' * 100_000}</div><p>The end.</p>"
    assert "The end." in _read(_write(tmp_path / "a.html", f"<p>{links}</p>{rest}")).text


def test_references_to_one_long_note(tmp_path: Path) -> None:
    links = '<a epub:type="noteref" href="#x">1</a> ' * 50_000
    make = random.Random(1).getrandbits
    words = " ".join(f"{make(28):x}" for _ in range(900_000))
    note = f'<aside epub:type="footnote" id="x">{words}</aside>'
    page = f'<html xmlns:epub="http://www.idpf.org/2007/ops"><p>{links}</p>{note}</html>'
    blocks = list(_read(_epub(tmp_path / "a.epub", page)).blocks)
    assert [block.kind for block in blocks] == ["paragraph", "note"]


def test_navigation_in_navigation(tmp_path: Path) -> None:
    page = "<body>" + "<div class=toc>" * 1_500 + "<p>a<hr>" * 150_000
    (chapter,) = _read(_write(tmp_path / "a.html", page)).chapters
    assert chapter.role == "body"


def test_sections_without_titles(tmp_path: Path) -> None:
    first = "<section><title><p>One</p></title><p>word</p></section>"
    body = f"<body><title><p>A book</p></title>{first}{'<section><p>a</p></section>' * 150_000}"
    text = f"<FictionBook><description><title-info/></description>{body}</body></FictionBook>"
    document = _read(_write(tmp_path / "a.fb2", text))
    assert [len(chapter.blocks) for chapter in document.chapters] == [1, 150_002]


@pytest.mark.parametrize("what", ["stylesheet{\\s1", "info{\\title"])
def test_names_letter_by_letter(tmp_path: Path, what: str) -> None:
    path = _write(
        tmp_path / "a.rtf", "{\\rtf1{\\" + what + " \\b ABCD" * 1_400_000 + "}}text\\par}"
    )
    assert _read(path).text == "text"


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: _xlsx(folder / "a.xlsx", "<worksheet><row>" + "<c " * 400_000),
        lambda folder: _xlsx(folder / "a.xlsx", "<row " * 400_000),
        lambda folder: _xlsx(folder / "a.xlsx", ' t="s" ' * 400_000),
        lambda folder: _zip(folder / "a.ods", [("content.xml", "<table:table " * 300_000)]),
    ],
    ids=["cells", "rows", "strings", "tables"],
)
def test_tags_that_never_end(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    with pytest.raises(InvalidInputError, match="not a valid spreadsheet|more than 256 attributes"):
        _read(make(tmp_path))


@pytest.mark.parametrize("name", ["./" * 30_000, "a" + "\u0301\u0323" * 15_000], ids=["dots", "é"])
def test_long_names_of_members(tmp_path: Path, name: str) -> None:
    members = [(f"{name}{number}", "x") for number in range(250)]
    path = _zip(tmp_path / "a.epub", [*members, ("META-INF/container.xml", _CONTAINER)])
    with pytest.raises(InvalidInputError, match="absurdly long name"):
        _read(path)


def test_long_name_of_what_is_packed(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(b"\x1f\x8b\x08\x08" + bytes(6) + b"a" * 250_000_000)
    with pytest.raises(InvalidInputError, match="header is too long"):
        _read(path)
    path.unlink()


def test_metadata_in_metadata(tmp_path: Path) -> None:
    make = random.Random(1).getrandbits
    words = " ".join(f"{make(28):x}" for _ in range(500_000))
    path = _epub(tmp_path / "a.epub", metadata=f"{'<a>' * 230}{words}{'</a>' * 230}")
    assert _read(path).text == "Hello, world."


def test_accents_on_one_letter(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.txt", f"{'It is a text. ' * 9}e" + "\u0301\u0323" * 500_000)
    assert _read(path, "pages").warnings == ()


def test_names_taken_for_text(tmp_path: Path) -> None:
    head = "Subject: x\nFrom: a@b.org\nTo: c@d.org\nContent-Type: text/plain; charset=punycode\n\n"
    path = _write(tmp_path / "a.eml", f"{head}Hello-" + "bcdefgh" * 800_000)
    assert "Hello-bcd" in _read(path).text


@pytest.mark.parametrize("form", ["book", "pages"])
def test_messages_in_messages(tmp_path: Path, form: Form) -> None:
    head = 'Subject: x\nFrom: a@b.org\nTo: c@d.org\nContent-Type: multipart/mixed; boundary="B"\n\n'
    message = b"Subject: x\nFrom: a@b.org\nTo: c@d.org\n\nWords."
    for _ in range(6):
        data = base64.encodebytes(gzip.compress(message, mtime=0)).decode()
        part = (
            '--B\nContent-Disposition: attachment; filename="a.eml.gz"\n'
            f"Content-Transfer-Encoding: base64\n\n{data}\n"
        )
        message = f"{head}--B\nContent-Type: text/plain\n\nHello.\n{part * 40}--B--\n".encode()
    path = tmp_path / "a.eml"
    path.write_bytes(message)
    document = _read(path, form)
    assert document.text.count("Hello.") > 40
    assert any("attachments" in warning for warning in document.warnings)
