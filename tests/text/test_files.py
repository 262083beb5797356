"""The door to files: formats by content, then by name.

Whatever is wrong is one `InvalidInputError`.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError
from anyrig.text import files
from anyrig.text.files import detect_format, read
from anyrig.text.folder import find
from anyrig.text.formats.limits import Limits
from tests.text.epub_maker import Page, epub, write
from tests.text.picture_making import sheet


@pytest.mark.parametrize(
    ("name", "data", "found"),
    [
        ("a.txt", b"Plain text.", "txt"),
        ("a.md", b"# Title", "md"),
        ("a.md", b"<p align='center'>x</p>\n\n# Title", "md"),
        ("a.txt", b"%PDF-1.7\n...", "pdf"),
        ("a.bin", b"\n\n%PDF-1.4", "pdf"),
        ("a.txt", b"A file that begins with %PDF-1.4 is a PDF.", "txt"),
        ("a.pdf", b"II*\x00" + b"\x00" * 9, "tiff"),
        ("a.doc", b"{\\rtf1 hello}", "rtf"),
        ("a.TSV", b"a\tb\n1\t2\n", "csv"),
        ("a.txt", b"<!DOCTYPE html><html><p>x", "html"),
        ("a.xml", b"<?xml version='1.0'?>\n<html xmlns='x'><body/></html>", "html"),
        ("a.xml", b"\xef\xbb\xbf<?xml version='1.0'?><FictionBook xmlns='x'/>", "fb2"),
        ("a.xml", '<?xml version="1.0"?><FictionBook/>'.encode("utf-16"), "fb2"),
        ("a.pdf", b"x" * 60 + b"BOOKMOBI" + b"x" * 60, "mobi"),
        ("a.txt", b"TPZ is what Amazon called Topaz.", "txt"),
        ("a.txt", b"RIFF files begin with these letters.", "txt"),
        ("a.log", b"ID3 tags were read from 12 files.", "txt"),
        ("notes", b"fLaC is the marker.\nSQLite format 3 is another.", "txt"),
        ("a.txt", b"OggS pages: see below", "txt"),
        ("a.txt", b"%PDF is a format of Adobe.", "txt"),
        ("a.md", b"%PDF-1.7 is the version that most programs write.", "md"),
        ("a.txt", b"PK begins a zip.", "txt"),
        ("a.txt", b"MZ are the initials of an engineer.", "txt"),
        ("a.log", b"Rar! said the bird.", "txt"),
        ("a.txt", b"7z packs well.", "txt"),
    ],
)
def test_content_counts_before_the_name(tmp_path: Path, name: str, data: bytes, found: str) -> None:
    (tmp_path / name).write_bytes(data)
    assert detect_format(tmp_path / name) == found


@pytest.mark.parametrize("mark", ["%PDF", "%PDF-1.7", "PK", "BM", "GIF", "MZ", "Rar!", "7z", "ID3"])
def test_a_text_about_a_format_is_read(tmp_path: Path, mark: str) -> None:
    text = f"{mark} is how files of this kind begin."
    (tmp_path / "a.txt").write_text(text)
    assert read(tmp_path / "a.txt").text == text


@pytest.mark.parametrize(
    ("members", "mimetype", "found"),
    [
        ({"META-INF/container.xml": "x"}, None, "epub"),
        ({"book.opf": "x"}, None, "epub"),
        ({"[Content_Types].xml": "x", "word/document.xml": "x"}, None, "docx"),
        ({"content.xml": "x"}, b"application/vnd.oasis.opendocument.text", "odt"),
        ({"book.fb2": "x"}, None, "fb2"),
    ],
)
def test_archives_are_told_apart_by_what_they_hold(
    tmp_path: Path, members: dict[str, str], mimetype: bytes | None, found: str
) -> None:
    assert detect_format(write(tmp_path / "a.zip", members, mimetype=mimetype)) == found


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.txt", b"", "is empty"),
        ("a.epub", b"This is no archive.", r"^a\.epub is not a valid EPUB \(damaged\?\)$"),
        ("a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\x00" * 99, "a damaged Office file"),
        ("a.txt", b"\x1f\x8b\x08\x00", "gzip"),
        ("a.txt", b"RIFF\x24\x08\x00\x00WAVEfmt ", "an audio or video file"),
        ("a.azw", b"TPZ0" + b"\x00" * 99, "protected by Amazon"),
        ("a.epub", b"\x89PNG\r\n\x1a\n", "an image"),
        ("a.epub", b"PK\x03\x04" + b"\x00" * 50, "not a complete zip"),
    ],
)
def test_other_files_are_refused_for_what_they_are(
    tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidInputError) as caught:
        read(tmp_path / name)
    assert re.search(message, caught.value.message)


NOISE = bytes(range(128, 256)) * 40


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("x.pdf", "PDF"), ("x.PDF", "PDF"), ("x.epub", "EPUB"), ("x.docx", "DOCX"),
        ("x.odt", "ODT"),
        ("x.mobi", "MOBI"), ("x.azw3", "AZW3"), ("x.doc", "Word document"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("data", [NOISE, b"\0" * 3000, b"plain words", b"PK\x03\x04" + NOISE])
def test_a_damaged_file_is_named_by_its_format(
    tmp_path: Path, name: str, label: str, data: bytes
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidInputError) as caught:
        read(tmp_path / name)
    if data.startswith(b"PK") and label not in ("EPUB", "DOCX", "ODT"):
        assert "is not a complete zip archive" in caught.value.message
    else:
        assert caught.value.message.startswith(f"{name} is not a valid {label} (damaged?)")


def test_a_pdf_that_breaks_off_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "x.pdf").write_bytes(b"%PDF-1.7\n" + NOISE)
    with pytest.raises(InvalidInputError) as caught:
        read(tmp_path / "x.pdf")
    assert caught.value.message == "x.pdf is not a valid PDF (damaged?)"


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
        with pytest.raises(InvalidInputError, match="not a regular file"):
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


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    top = tmp_path / "papers"
    (top / "b" / "deep").mkdir(parents=True)
    (top / ".git").mkdir()
    (top / "node_modules").mkdir()
    for name in ("z.txt", "A.md", "b/two.csv", "b/deep/three.html", "README"):
        (top / name).write_text("some words")
    sheet(1).save(top / "b" / "one.png")
    (top / "b" / "lie.pdf").write_text("no pdf at all")
    for name in (".hidden.txt", ".git/config.txt", "node_modules/x.md", "~$letter.docx",
                 "Thumbs.db", "half.pdf.part", "old~"):  # fmt: skip
        (top / name).write_text("words of nobody")
    (top / "data.bin").write_bytes(bytes(range(256)))
    (top / "song.mp3").write_bytes(b"ID3" + bytes(100))
    return top


def _names(found: tuple[Path, ...], top: Path) -> list[str]:
    return [path.relative_to(top).as_posix() for path in found]


def test_all_that_can_be_read_in_order(folder: Path) -> None:
    found = find(folder)
    assert _names(found.files, folder) == [
        "A.md", "README", "b/deep/three.html", "b/lie.pdf", "b/one.png", "b/two.csv", "z.txt",
    ]  # fmt: skip
    assert [(s.path.name, s.reason) for s in found.skipped] == [
        ("data.bin", "of a kind that is not read here"),
        ("song.mp3", "song.mp3 is an audio file, not text"),
    ]
    assert found.unreadable == ()
    assert find(folder) == found


def test_hidden_ones_when_asked_for(folder: Path) -> None:
    names = _names(find(folder, hidden=True).files, folder)
    assert ".hidden.txt" in names
    assert ".git/config.txt" in names
    assert "node_modules/x.md" not in names


@pytest.mark.parametrize(
    ("types", "names"),
    [
        (["pdf"], ["b/lie.pdf"]),
        ([".CSV", "markdown"], ["A.md", "b/two.csv"]),
        (["picture"], ["b/one.png"]),
        (["txt"], ["README", "z.txt"]),
        (["*.htm"], ["b/deep/three.html"]),
    ],
)
def test_types(folder: Path, types: list[str], names: list[str]) -> None:
    assert _names(find(folder, types=types).files, folder) == names


def test_an_unknown_type_names_the_known(folder: Path) -> None:
    with pytest.raises(InvalidInputError, match="no type 'exe'") as caught:
        find(folder, types=["exe"])
    assert "pdf" in caught.value.hint


def test_what_is_named_itself_is_taken_and_nothing_twice(folder: Path) -> None:
    hidden, gone = folder / ".hidden.txt", folder / "gone.txt"
    found = find([folder / "b", hidden, folder / "b" / "deep", gone, folder / "b" / "one.png"])
    assert _names(found.files, folder) == [
        "b/deep/three.html", "b/lie.pdf", "b/one.png", "b/two.csv", ".hidden.txt", "gone.txt",
    ]  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_that_lead_in_circles_or_nowhere(folder: Path) -> None:
    before = find(folder).files
    (folder / "b" / "loop").symlink_to(folder, target_is_directory=True)
    (folder / "b" / "self").symlink_to(folder / "b" / "self")
    (folder / "lost.txt").symlink_to(folder / "none.txt")
    (folder / "again.txt").symlink_to(folder / "z.txt")
    found = find(folder)
    assert set(found.files) == {*before, folder / "again.txt"}
    assert ("lost.txt", "a link that leads nowhere") in [
        (each.path.name, each.reason) for each in found.skipped
    ]


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_that_lead_out_of_the_folder_are_listed_and_not_followed(
    folder: Path, tmp_path: Path
) -> None:
    before = find(folder).files
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "diary.txt").write_text("nobody's business")
    (tmp_path / "papers2").mkdir()  # its name begins as the folder's does
    (tmp_path / "papers2" / "other.txt").write_text("words")
    (folder / "out").symlink_to(tmp_path / "private", target_is_directory=True)
    (folder / "b" / "diary.txt").symlink_to(tmp_path / "private" / "diary.txt")
    (folder / "b" / "chain.txt").symlink_to(folder / "b" / "diary.txt")
    (folder / "next").symlink_to("../papers2", target_is_directory=True)
    (folder / "system").symlink_to("/proc", target_is_directory=True)
    found = find(folder)
    assert found.files == before
    assert _names(tuple(one.path for one in found.outside), folder) == [
        "b/chain.txt", "b/diary.txt", "next", "out", "system",
    ]  # fmt: skip
    # A folder that is named itself may be reached by a link.
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    assert len(find(tmp_path / "link").files) == len(before)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes there")
def test_pipes_are_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe.txt")
    found = find(folder, types=["txt"])
    assert [(s.path.name, s.reason) for s in found.skipped if s.path.suffix == ".txt"] == [
        ("pipe.txt", "not a regular file")
    ]


def test_names_that_are_no_unicode_and_deep_folders(tmp_path: Path) -> None:
    if sys.platform == "linux":
        with open(os.fsencode(tmp_path) + b"/caf\xe9.txt", "wb") as file:
            file.write(b"words")
    deep = tmp_path
    for _ in range(300):
        deep = deep / "d"
        deep.mkdir()
    (deep / "last.txt").write_text("words")
    names = [path.name for path in find(tmp_path).files]
    assert "last.txt" in names
    assert len(names) == 1 + (sys.platform == "linux")


@pytest.fixture
def as_anyone() -> Iterator[None]:
    """Without the rights of root, who may look everywhere."""
    if not hasattr(os, "geteuid"):
        pytest.skip("no such rights there")
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    yield
    os.seteuid(before)


@pytest.mark.parametrize("mode", [0, 0o444])
def test_closed_folders_and_files_are_named(mode: int, as_anyone: None) -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        top = Path(name)
        (top / "b").mkdir()
        (top / "b" / "in.txt").write_text("words")
        (top / "a.txt").write_text("words")
        (top / "shut").write_text("words")
        (top / "shut").chmod(0)
        (top / "b").chmod(mode)
        found = find(top)
        (top / "b").chmod(0o755)
    assert [path.name for path in found.files] == ["a.txt", "shut"]
    passed = [each.path.name for each in (*found.unreadable, *found.skipped)]
    assert passed == (["b"] if mode == 0 else ["in.txt"])
