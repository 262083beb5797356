"""gzip: what is inside is read; bombs, archives and noise are named."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from anyrig.errors import InvalidInputError, LimitExceededError
from anyrig.text.files import guess_format, read
from anyrig.text.folder import find
from tests.text.formats.pdf_making import pdf
from tests.text.formats.test_pdf import leaf
from tests.text.page_reading import read_pages, render_pages


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(gzip.compress(data))
    return path


def test_the_file_inside_is_read_by_its_own_format(tmp_path: Path) -> None:
    path = _write(tmp_path / "notes.md.gz", b"# Title\n\nSome *words*.\n")
    document = read(path)
    assert (document.format, document.path, document.metadata.title) == ("md", path, "Title")
    assert "Some words." in document.text
    assert read_pages(path).path == path
    assert guess_format("a.txt.gz") == "txt"


def test_pages_of_a_compressed_pdf_can_be_drawn(tmp_path: Path) -> None:
    path = _write(tmp_path / "a.pdf.gz", pdf([leaf()]))
    assert "harbour lay still" in read_pages(path).text
    (page,) = render_pages(path, [1], dpi=72)
    assert page.data.startswith(b"\x89PNG")


def test_folders_take_texts_and_pass_over_the_rest(tmp_path: Path) -> None:
    _write(tmp_path / "changelog.gz", b"words of the change log\n" * 9)
    _write(tmp_path / "letter.txt.gz", b"words of a letter")
    _write(tmp_path / "data.bin.gz", bytes(range(256)) * 40)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("a.txt"))
    _write(tmp_path / "all.tar.gz", archive.getvalue())
    found = find(tmp_path)
    assert [path.name for path in found.files] == ["changelog.gz", "letter.txt.gz"]
    assert [path.name for path in find(tmp_path, types=["txt"]).files] == ["letter.txt.gz"]
    assert [skipped.reason for skipped in found.skipped] == [
        "all.tar.gz is a tar archive", "of a kind that is not read here",
    ]  # fmt: skip


def test_bombs_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LimitExceededError, match="unpacks to more than"):
        read(_write(tmp_path / "a.txt.gz", b"a" * 60_000_000))
    with pytest.raises(InvalidInputError, match="compressed twice"):
        read(_write(tmp_path / "b.txt.gz", gzip.compress(b"words")))
    whole = gzip.compress(b"The words of it. " * 5000)
    (tmp_path / "c.txt.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidInputError, match="not a valid gzip file"):
        read(tmp_path / "c.txt.gz")
