"""Hostile files through the command itself: what is said, what it exits with, what it leaves."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.conftest import Anyrig
from tests.text.hostile.hostile_epubs import TITLES
from tests.text.hostile.hostile_files import ALL

REFUSED = (
    "flat_zip_bomb", "members_that_climb", "symbolic_link_member", "billion_laughs_in_page",
    "billion_laughs_in_docx", "half_a_zip", "pdf_of_pages_in_a_circle", "png_called_pdf", "a_pipe",
    "bytes_of_empty", "bytes_of_emoji_only", "a_name_with_a_newline_that_is_no_book",
)  # fmt: skip
READ = ("spine_items_that_are_missing", "cover_of_900_million_pixels", "escape_sequences_in_titles")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it has no such names")


def everything(folder: Path) -> set[str]:
    """All files below a folder, but for what the program keeps of its own."""
    kept = folder / "home"
    return {
        os.path.join(above, name)
        for above, _, files in os.walk(folder)
        for name in files
        if not above.startswith(str(kept))
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "books" / "given"
    made.mkdir(parents=True)
    return made


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_leaves_two_lines_and_nothing_else(
    name: str, anyrig: Anyrig, tmp_path: Path, folder: Path
) -> None:
    if name in ALL:
        path = ALL[name].make(folder)
    else:
        path = folder / "a\nerror: \x1b[2J.epub"
        path.write_bytes(b"no book")
    before = everything(tmp_path)
    done = anyrig("book", str(path), "-o", str(tmp_path / "out" / "x.m4b"), "--engine", "tone")
    assert done.returncode == 2, done.stderr
    error, hint = done.stderr.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("  hint: ")
    assert "\x1b" not in done.stderr
    assert done.stdout == ""
    assert everything(tmp_path) == before
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", READ)
def test_what_is_read_becomes_one_file(
    name: str, anyrig: Anyrig, tmp_path: Path, folder: Path
) -> None:
    path = ALL[name].make(folder)
    before = everything(tmp_path)
    out = tmp_path / "out" / "x.m4b"
    done = anyrig("book", str(path), "-o", str(out), "--engine", "tone")
    assert done.returncode == 0, done.stderr
    assert everything(tmp_path) - before == {str(out)}
    assert not any(sign in done.stdout + done.stderr for sign in "\x1b\x9b\u202e")


def test_titles_lead_no_file_out_of_its_folder(
    anyrig: Anyrig, tmp_path: Path, folder: Path
) -> None:
    path = ALL["titles_that_lead_out"].make(folder)
    before = everything(tmp_path)
    out = tmp_path / "out"
    done = anyrig("book", str(path), "-o", str(out), "--format", "mp3", "--engine", "tone")
    assert done.returncode == 0, done.stderr
    made = {Path(name) for name in everything(tmp_path) - before}
    assert {one.parent for one in made} == {out}
    assert sum(one.suffix == ".mp3" for one in made) >= len(TITLES) // 2
    assert not any(control(one.name) for one in made)


def test_a_list_sends_no_codes_to_a_terminal(anyrig: Anyrig, folder: Path) -> None:
    for name in ("escape_sequences_in_titles", "titles_that_lead_out"):
        path = ALL[name].make(folder)
        done = anyrig("book", str(path), "--list", "--engine", "tone")
        assert done.returncode == 0, done.stderr
        assert not any(control(line) for line in done.stdout.splitlines())


def test_a_book_that_may_not_be_read_or_written(
    anyrig: Anyrig, tmp_path: Path, folder: Path
) -> None:
    path = ALL["spine_items_that_are_missing"].make(folder)
    target = tmp_path / "elsewhere"
    target.mkdir()
    (tmp_path / "link").symlink_to(target)
    done = anyrig("book", str(path), "-o", str(tmp_path / "link" / "x.m4b"), "--engine", "tone")
    assert done.returncode == 0, done.stderr
    assert [one.name for one in target.iterdir()] == ["x.m4b"]
    done = anyrig("book", str(path), "-o", str(path / "x.m4b"), "--engine", "tone")
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert "hint:" in done.stderr


def control(text: str) -> bool:
    """Whether it could do something to a terminal."""
    return any(ord(sign) < 32 or 126 < ord(sign) < 160 or sign in "\u202e\u2028" for sign in text)
