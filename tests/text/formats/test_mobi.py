"""Kindle books: read through Calibre where it is, refused from their first bytes when locked."""

from __future__ import annotations

import os
import struct
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from anyrig.errors import InvalidInputError, MissingPackageError, ProtectedFileError
from anyrig.text.files import read as read_any
from anyrig.text.formats.limits import Limits
from anyrig.text.formats.mobi import read
from tests.text.epub_maker import Page, epub
from tests.waiting import wait_until


def mobi(path: Path, *, encryption: int = 0, kind: bytes = b"BOOKMOBI") -> Path:
    """A file with the head of a Mobipocket book, and nothing much after it."""
    head = b"a-book".ljust(32, b"\x00") + bytes(28) + kind + bytes(8) + struct.pack(">H", 1)
    start = len(head) + 8 + 2
    record = struct.pack(">HHIHHHH", 1, 0, 100, 1, 4096, encryption, 0) + b"MOBI" + bytes(228)
    path.write_bytes(head + struct.pack(">II", start, 0) + bytes(2) + record)
    return path


@pytest.fixture
def calibre(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in `ebook-convert` on the path; what is written to the file is what it does."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "ebook-convert"
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return program


def becomes(program: Path, body: str) -> None:
    program.write_text(f"#!{sys.executable}\nimport shutil, sys, time, os\n{body}\n")
    program.chmod(0o755)


def left_over(tmp_path: Path) -> list[Path]:
    return list(tmp_path.glob("anyrig-book-*"))


def test_a_book_is_read_through_the_epub_that_calibre_makes(
    tmp_path: Path, calibre: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ready = epub(tmp_path / "ready.epub", [Page("c1.xhtml", "<h1>One</h1><p>It was dark.</p>")])
    becomes(
        calibre,
        f"assert sys.argv[1].endswith('tale.azw3') and sys.argv[2].endswith('tale.epub')\n"
        f"assert os.path.isdir(os.environ['CALIBRE_TEMP_DIR'])\n"
        f"assert 'PYTHONPATH' not in os.environ\n"
        f"print('1% Converting')\nshutil.copyfile({str(ready)!r}, sys.argv[2])",
    )
    document = read_any(mobi(tmp_path / "tale.azw3"))
    assert document.format == "mobi"
    said = [block.text for chapter in document.chapters for block in chapter.blocks]
    assert said == ["One", "It was dark."]
    assert left_over(tmp_path) == []


def test_without_calibre_the_way_to_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("anyrig.text.formats.mobi._PLACES", ())
    with pytest.raises(MissingPackageError, match="Calibre") as caught:
        read(mobi(tmp_path / "tale.mobi"), Limits())
    assert "install" in caught.value.hint


@pytest.mark.parametrize("encryption", [1, 2])
def test_a_locked_book_is_refused_before_anything_runs(
    tmp_path: Path, calibre: Path, encryption: int
) -> None:
    becomes(calibre, f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(ProtectedFileError, match="protected"):
        read_any(mobi(tmp_path / "tale.azw", encryption=encryption))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("head", [b"TPZ0" + bytes(200), b"\xeaDRMION\xee" + bytes(200)])
def test_topaz_and_kfx_are_refused(tmp_path: Path, head: bytes) -> None:
    path = tmp_path / "tale.azw"
    path.write_bytes(head)
    with pytest.raises(ProtectedFileError, match="Amazon"):
        read(path, Limits())


def test_a_file_cut_short_is_bad_input(tmp_path: Path) -> None:
    whole = mobi(tmp_path / "whole.mobi").read_bytes()
    for length in (70, 80, len(whole) - 240):
        path = tmp_path / f"cut{length}.mobi"
        path.write_bytes(whole[:length])
        with pytest.raises(InvalidInputError, match="truncated"):
            read(path, Limits())


def test_what_calibre_says_is_passed_on(tmp_path: Path, calibre: Path) -> None:
    becomes(calibre, "print('Not a valid MOBI file'); sys.exit(1)")
    with pytest.raises(InvalidInputError, match="Not a valid MOBI file"):
        read(mobi(tmp_path / "tale.mobi"), Limits())
    becomes(calibre, "print('calibre.ebooks.DRMError: Tale'); sys.exit(1)")
    with pytest.raises(ProtectedFileError, match="DRM"):
        read(mobi(tmp_path / "tale.mobi"), Limits())
    becomes(calibre, "sys.exit(0)")
    with pytest.raises(InvalidInputError, match="cannot convert"):
        read(mobi(tmp_path / "tale.mobi"), Limits())
    assert left_over(tmp_path) == []


def test_a_calibre_that_hangs_is_ended_with_its_children(tmp_path: Path, calibre: Path) -> None:
    alive = tmp_path / "child"
    becomes(
        calibre,
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(alive)!r}, 'w').write(str(child.pid))\ntime.sleep(60)",
    )
    with pytest.raises(InvalidInputError, match="did not end"):
        read(mobi(tmp_path / "tale.mobi"), Limits(), time_limit_s=3)
    assert left_over(tmp_path) == []
    number = int(alive.read_text())
    # It is killed, but on a busy machine not dead at once; by itself it would live for a minute.
    wait_until(lambda: not _is_running(number), timeout_s=30)


def _is_running(number: int) -> bool:
    try:
        return psutil.Process(number).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_calibre_that_cannot_start_is_missing(tmp_path: Path, calibre: Path) -> None:
    calibre.write_text("#!/no/such/program\n")
    calibre.chmod(0o755)
    with pytest.raises(MissingPackageError, match="started"):
        read(mobi(tmp_path / "tale.mobi"), Limits())
