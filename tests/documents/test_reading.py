"""Files to pages of text: their own first, their pictures where that is none; none stops others."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anyrig.documents.reading import (
    Mode,
    ReadPicture,
    apply_all,
    build_textless_error,
    read_all,
)
from anyrig.errors import (
    DeviceLostError,
    InvalidInputError,
    OutOfMemoryError,
    render,
)
from anyrig.text.document import Document
from anyrig.text.sandbox import ReadError
from tests.text.formats.pdf_making import Leaf, write
from tests.text.formats.test_pdf import TEXT, leaf
from tests.text.page_reading import list_sources
from tests.text.picture_making import WORDS, Counts, bomb_png, sheet, tiff
from tests.text.test_pages import SCAN


def read(path: Path, **options: Any) -> Document:
    (found,) = read_all([path], **options)
    if isinstance(found, ReadError):
        raise found.error
    return found


def _mixed(path: Path) -> Path:
    """Text, a scan, a scan with a stamp, a garbled page, a blank one, text."""
    scan, stamped, garbled = Leaf(), Leaf(), Leaf()
    scan.drawn += ["0 g", *(f"{42 + 84 * n - 21} 516 42 42 re f" for n in range(2))]
    stamped.drawn.append(SCAN)
    stamped.put(60, 30, "Copy 7")
    garbled.set(60, 300, "".join(chr(ord(c) - 29) if c > "=" else c for c in TEXT * 2))
    return write(path, [leaf(), scan, stamped, garbled, Leaf(), leaf()])


def _holds(document: Document) -> Document:
    for page in document.parts("page"):
        assert document.text[page.start : page.start + len(page.text)] == page.text
    return document


NONE = "and no OCR is installed (pip install 'anyrig[ocr]')"


def test_pictures_are_read_only_where_there_is_no_usable_text(tmp_path: Path) -> None:
    ocr = Counts()
    document = _holds(read(_mixed(tmp_path / "a.pdf"), ocr=ocr))
    assert ocr.num_read == 3
    assert list_sources(document) == ["text", "ocr", "layer", "layer", "none", "text"]
    pages = document.parts("page")
    assert pages[1].text == "two squares"
    assert pages[2].text == "Copy 7"
    assert pages[0].text == pages[5].text == TEXT
    assert document.warnings == (
        "no text was found on the picture of pages 3-4",
        "the text of pages 3-4 is the file's own and may be of no use",
    )


def test_without_ocr_what_is_doubtful_stays_and_is_named(tmp_path: Path) -> None:
    document = _holds(read(_mixed(tmp_path / "a.pdf")))
    assert [bool(page.text) for page in document.parts("page")] == [
        True,
        False,
        True,
        True,
        False,
        True,
    ]
    assert document.warnings == (
        f"page 2: drawn without a text layer, {NONE}",
        f"page 3: a picture with little text on it, {NONE}",
        f"page 4: its letters make no words, {NONE}",
    )


@pytest.mark.parametrize(("mode", "num_read"), [("auto", 3), ("never", 0), ("always", 5)])
def test_modes(tmp_path: Path, mode: Mode, num_read: int) -> None:
    ocr = Counts()
    document = _holds(read(_mixed(tmp_path / "a.pdf"), ocr=ocr, mode=mode))
    assert ocr.num_read == num_read
    assert (
        document.parts("page")[0].text == TEXT
    )  # nothing was found on its picture: its own text stays


def test_a_tiff_page_by_page(tmp_path: Path) -> None:
    path = tiff(tmp_path / "a.tif", [2, 5, 1])
    document = _holds(read(path, ocr=Counts()))
    assert [page.text for page in document.parts("page")] == [WORDS[2], WORDS[5], WORDS[1]]
    assert set(list_sources(document)) == {"ocr"}
    assert read(path).warnings == (f"pages 1-3: a picture without a text layer, {NONE}",)
    assert "unsure of pages 1-3" in read(path, ocr=Counts(0.3)).warnings[0]


def test_a_file_of_pictures_alone_says_what_to_do(tmp_path: Path) -> None:
    path = tiff(tmp_path / "a.tif", [2, 5])
    missing = build_textless_error(read(path))
    assert missing.message.endswith("pages 1-2: a picture without a text layer, " + NONE[:23])
    assert missing.hint == "pip install 'anyrig[ocr]'"
    assert "--ocr never" in render(build_textless_error(read(path, mode="never")).hint, "command")


def test_a_picture_that_cannot_be_drawn_is_the_file_s_error(tmp_path: Path) -> None:
    sheet(1, (900, 900)).save(tmp_path / "a.png")
    data = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(data[: len(data) // 2])
    with pytest.raises(InvalidInputError, match=r"a\.png is damaged"):
        read(tmp_path / "a.png", ocr=Counts())


def test_a_page_that_cannot_be_drawn_costs_that_page(tmp_path: Path) -> None:
    path = tiff(tmp_path / "a.tif", [1, 2, 3], compression="tiff_deflate")
    data = path.read_bytes()
    at = data.find(b"\x78\x9c")  # where the first packed strip of the first page begins
    assert at > 0
    path.write_bytes(data[:at] + bytes(20) + data[at + 20 :])
    document = read(path, ocr=Counts())
    assert [page.text for page in document.parts("page")] == ["", WORDS[2], WORDS[3]]
    assert "page 1 could not be read" in document.warnings[0]


class Fails:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def read(self, pictures: Iterable[bytes]) -> Iterator[ReadPicture]:
        for _ in pictures:
            raise self._error
        yield from ()


class Chokes:
    """Fails on the second picture and finds nothing on the third."""

    def read(self, pictures: Iterable[bytes]) -> Iterator[ReadPicture]:
        for number, _ in enumerate(pictures):
            failure = "its worker died" if number == 1 else ""
            yield ReadPicture("" if number else "words", failure=failure)


def test_a_page_that_ocr_fails_on_is_told_apart_from_one_that_is_bare(tmp_path: Path) -> None:
    document = read(tiff(tmp_path / "a.tif", [1, 2, 3]), ocr=Chokes())
    assert [page.text for page in document.parts("page")] == ["words", "", ""]
    assert document.warnings == (
        "page 2 could not be read: its worker died",
        "no text was found on the picture of page 3",
    )


def test_an_engine_that_fails_on_one_file_does_not_stop_the_others(tmp_path: Path) -> None:
    paths = [tiff(tmp_path / "a.tif", [1]), tmp_path / "b.txt"]
    paths[1].write_text("words")
    for error in (RuntimeError("no kernel"), OutOfMemoryError("too large", hint="less")):
        bad, good = read_all(paths, ocr=Fails(error))
        assert isinstance(bad, ReadError)
        assert isinstance(good, Document)
    with pytest.raises(DeviceLostError):
        list(read_all(paths, ocr=Fails(DeviceLostError("gone", hint="again"))))


@pytest.mark.parametrize("workers", [1, 3])
def test_many_files_in_order_whatever_is_wrong_with_some(tmp_path: Path, workers: int) -> None:
    paths: list[Path] = []
    for number in range(12):
        paths.append(tmp_path / f"{number}.txt")
        paths[-1].write_text(f"words of {number}")
    bad = {
        "cut.pdf": b"%PDF-1.4\nnothing", "empty.csv": b"", "lie.docx": b"words",
        "noise.txt": bytes(range(256)) * 9, "bomb.png": bomb_png(60_000, 60_000),
        "half.epub": b"PK\x03\x04" + bytes(60),
    }  # fmt: skip
    for at, (name, data) in enumerate(bad.items()):
        (tmp_path / name).write_bytes(data)
        paths.insert(2 * at, tmp_path / name)
    paths.append(tmp_path / "none.txt")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.txt")
        paths.append(tmp_path / "pipe.txt")
    found = list(read_all(paths, workers=workers))
    assert [each.path for each in found] == paths
    for each in found:
        if isinstance(each, ReadError):
            assert each.error.message
            assert "\n" not in each.error.message
            assert each.error.hint
        else:
            assert each.text == f"words of {each.path.stem}"
    unread = {each.path.name for each in found if isinstance(each, ReadError)}
    assert unread == {*bad, "none.txt"} | ({"pipe.txt"} if hasattr(os, "mkfifo") else set())


def test_files_are_taken_as_they_are_needed_and_left_when_not(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words")
    taken = 0

    def paths() -> Iterator[Path]:
        nonlocal taken
        for _ in range(1000):
            taken += 1
            yield tmp_path / "a.txt"

    found = read_all(paths(), workers=2)
    assert isinstance(next(found), Document)
    found.close()
    assert taken < 20
    assert not [each for each in threading.enumerate() if each.name.startswith("reading")]


class Streams(Counts):
    """Counts how often it is asked, and how many pictures it takes before it answers."""

    def __init__(self) -> None:
        super().__init__()
        self.num_streams = 0

    def read(self, pictures: Iterable[bytes]) -> Iterator[ReadPicture]:
        self.num_streams += 1
        yield from super().read(list(pictures))


def test_the_pages_of_all_files_are_one_stream(tmp_path: Path) -> None:
    paths = []
    for number in range(4):
        paths += [tiff(tmp_path / f"{number}.tif", [number + 1, 2]), tmp_path / f"{number}.txt"]
        paths[-1].write_text(f"words of {number}")
    paths.insert(3, tmp_path / "none.txt")
    ocr = Streams()
    found = list(read_all(paths, ocr=ocr))
    assert [one.path for one in found] == paths
    texts = [one.parts("page")[0].text for one in found if isinstance(one, Document)]
    assert texts == [text for n in range(4) for text in (WORDS[n + 1], f"words of {n}")]
    assert (ocr.num_streams, ocr.num_read) == (1, 8)
    ocr = Streams()
    applied = apply_all("anyrig.text.document:document_to_json", paths, ocr=ocr)
    assert [isinstance(one, ReadError) for one in applied] == [
        path.stem == "none" for path in paths
    ]
    assert (ocr.num_streams, ocr.num_read) == (1, 8)


def test_a_fault_of_the_engine_costs_one_file_of_a_stream(tmp_path: Path) -> None:
    class FailsOnThree(Counts):
        def read(self, pictures: Iterable[bytes]) -> Iterator[ReadPicture]:
            for answer in super().read(pictures):
                if answer.text == WORDS[3]:
                    raise RuntimeError("no kernel")
                yield answer

    paths = [tiff(tmp_path / f"{number}.tif", [number]) for number in range(1, 6)]
    found = list(read_all(paths, ocr=FailsOnThree()))
    assert [isinstance(one, ReadError) for one in found] == [False, False, True, False, False]
    assert "no kernel" in found[2].error.message  # type: ignore[union-attr]
