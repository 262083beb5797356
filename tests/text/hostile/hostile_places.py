"""Things on a disk that are no plain file."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from tests.text.hostile.hostile_archives import honest
from tests.text.hostile.hostile_kinds import hostile


@hostile("refused")
def a_pipe(folder: Path) -> Path:
    path = folder / "book.epub"
    os.mkfifo(path)
    return path


@hostile("refused")
def a_socket(folder: Path) -> Path:
    here = os.getcwd()
    os.chdir(folder)  # the path of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("s.epub")
    finally:
        os.chdir(here)
    return folder / "s.epub"


@hostile("refused")
def a_device(folder: Path) -> Path:
    path = folder / "book.txt"
    path.symlink_to("/dev/zero")
    return path


@hostile("refused")
def a_folder(folder: Path) -> Path:
    path = folder / "book.epub"
    path.mkdir()
    return path


@hostile("refused")
def a_link_to_itself(folder: Path) -> Path:
    path = folder / "book.epub"
    path.symlink_to(path)
    return path


@hostile("refused")
def a_link_to_nothing(folder: Path) -> Path:
    path = folder / "book.epub"
    path.symlink_to(folder / "none")
    return path


@hostile("refused")
def a_name_that_is_too_long(folder: Path) -> Path:
    return folder / ("x" * 5000)


@hostile("refused")
def a_name_with_a_nul(folder: Path) -> Path:
    return folder / "a\x00b.epub"


@hostile("read")
def a_name_that_escapes(folder: Path) -> Path:
    return honest(folder / "a\x1b[2J\nb\u202e.epub")


@hostile("refused")
def a_sparse_terabyte(folder: Path) -> Path:
    path = folder / "book.txt"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    return path


@hostile("refused")
def a_sparse_gigabyte(folder: Path) -> Path:
    path = folder / "book.txt"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    return path


@hostile("refused")
def a_sparse_gigabyte_of_html(folder: Path) -> Path:
    path = folder / "book.html"
    path.write_bytes(b"<html><body><p>Words.</p>")
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    return path


@hostile("either")
def a_sparse_gigabyte_called_epub(folder: Path) -> Path:
    path = honest(folder / "book.epub")
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    return path


@hostile("either", slow=True)
def a_sparse_gigabyte_of_pdf(folder: Path) -> Path:
    path = folder / "book.pdf"
    path.write_bytes(b"%PDF-1.4\n")
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    return path
