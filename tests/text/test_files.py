"""The door to files: formats by content, then by name.

Whatever is wrong is one `InvalidInputError`.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError, ProtectedFileError
from anyrig.text import files
from anyrig.text.files import FORMATS, format_of, read
from anyrig.text.formats.limits import Limits
from tests.text.epub_maker import Page, epub, write


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        ("a.txt", b"Plain text.", "txt"),
        ("noname", b"Plain text.", "txt"),
        ("a.md", b"# Title", "md"),
        ("a.md", b"<p align='center'>x</p>\n\n# Title", "md"),
        ("a.md", b"<html><p>in HTML</p>", "md"),
        ("a.txt", b"%PDF-1.7\n...", "pdf"),
        ("a.bin", b"\n\n%PDF-1.4", "pdf"),
        ("a.txt", b"A file that begins with %PDF-1.4 is a PDF.", "txt"),
        ("a.html", b"<html><p>%PDF-1.4</p>", "html"),
        ("a.webp", b"RIFF\x24\x00\x00\x00WEBPVP8 ", "webp"),
        ("a.pdf", b"II*\x00" + b"\x00" * 9, "tiff"),
        ("a.doc", b"{\\rtf1 hello}", "rtf"),
        ("a.txt", b"<!DOCTYPE html><html><p>x", "html"),
        ("a.xml", b"<?xml version='1.0'?>\n<html xmlns='x'><body/></html>", "html"),
        ("a.htm", b"<p>just a piece", "html"),
        ("a.xml", b"\xef\xbb\xbf<?xml version='1.0'?><FictionBook xmlns='x'/>", "fb2"),
        ("a.xml", '<?xml version="1.0"?><FictionBook/>'.encode("utf-16"), "fb2"),
        ("a.pdf", b"x" * 60 + b"BOOKMOBI" + b"x" * 60, "mobi"),
    ],
)
def test_content_counts_before_the_name(tmp_path: Path, name: str, data: bytes, found: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert format_of(tmp_path / name) == found


@pytest.mark.parametrize(
    ("members", "mimetype", "found"),
    [
        ({"META-INF/container.xml": "x"}, None, "epub"),
        ({"a": "x"}, b"application/epub+zip", "epub"),
        ({"book.opf": "x"}, None, "epub"),
        ({"[Content_Types].xml": "x", "word/document.xml": "x"}, None, "docx"),
        ({"content.xml": "x"}, b"application/vnd.oasis.opendocument.text", "odt"),
        ({"book.fb2": "x"}, None, "fb2"),
    ],
)
def test_archives_are_told_apart_by_what_they_hold(
    tmp_path: Path, members: dict[str, str], mimetype: bytes | None, found: str
) -> None:
    assert format_of(write(tmp_path / "a.zip", members, mimetype=mimetype)) == found


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"", "is empty"),
        ("a.epub", b"This is no archive.", "called .epub and is none"),
        ("a.pdf", b"no pdf", "called .pdf and is none"),
        ("a.docx", b"no docx", "called .docx and is none"),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 99, "an old Word"),
        ("a.txt", b"\x1f\x8b\x08\x00", "gzip"),
        ("a.epub", b"\x89PNG\r\n\x1a\n", "a picture"),
        ("a.epub", b"PK\x03\x04" + b"\x00" * 50, "no whole zip"),
        ("a.epub", b"PK\x05\x06" + b"\x00" * 18, "without a package file"),
    ],
)
def test_other_files_are_refused_for_what_they_are(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidInputError, match=message):
        read(tmp_path / name)


@pytest.mark.parametrize("head", [b"\xeaDRMION\xee", b"TPZ0"])
def test_sellers_own_formats_are_refused_as_locked(tmp_path: Path, head: bytes) -> None:
    (tmp_path / "a.azw").write_bytes(head + b"\x00" * 200)
    with pytest.raises(ProtectedFileError, match="Amazon"):
        read(tmp_path / "a.azw")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="No such file"):
        read(tmp_path / "none.epub")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        read(Path("a\x00b"))
    (tmp_path / "dir.epub").mkdir()
    with pytest.raises(InvalidInputError, match="is a folder"):
        read(tmp_path / "dir.epub")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.txt")
        with pytest.raises(InvalidInputError, match="no regular file"):
            read(tmp_path / "pipe.txt")


def test_too_large_a_file_or_text_is_refused(tmp_path: Path) -> None:
    path = epub(tmp_path / "a.epub", [Page("c.xhtml", f"<p>{'word ' * 100}</p>")])
    assert read(path)
    with pytest.raises(InvalidInputError, match="larger than"):
        read(path, limits=Limits(file_bytes=100))
    with pytest.raises(InvalidInputError, match="characters of text"):
        read(path, limits=Limits(characters=100))


def test_a_fault_that_no_reader_foresaw_is_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd_reader.py").write_text("def read(path, limits):\n    return {}['x']\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(files.FORMATS, "txt", "odd_reader")
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InvalidInputError, match="cannot be read as txt"):
        read(tmp_path / "a.txt")


def test_every_format_of_the_table_has_a_reader(subtests: pytest.Subtests) -> None:
    for module in FORMATS.values():
        with subtests.test(module=module):
            assert importlib.util.find_spec(module), f"{module} is not there"


def test_no_reader_is_loaded_before_it_is_needed() -> None:
    code = (
        "import sys, anyrig.text.files;"
        "print([m for m in ('lxml', 'pypdfium2', 'numpy') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
