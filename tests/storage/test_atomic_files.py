"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anyrig.storage.files import write_atomic

KILLED = """
import os, pathlib, signal, sys
from anyrig.storage.files import open_atomic
with open_atomic(pathlib.Path(sys.argv[1])) as file:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_a_killed_process_left_is_removed(folder: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, folder / "book.srt"], check=False)
    other = folder / ".diary.0123456789ab"  # of another program, or for another file
    other.write_text("mine")
    (left,) = set(folder.iterdir()) - {other}
    for path in (left, other):
        os.utime(path, (1, 1))
    write_atomic(folder / "book.srt", "whole")
    assert names(folder) == [other.name, "book.srt"]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes with names are of Unix")
def test_a_pipe_is_written_to_and_stays(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    reader = os.open(folder / "pipe", os.O_RDWR)
    try:
        write_atomic(folder / "pipe", "hello")
        assert os.read(reader, 100) == b"hello"
    finally:
        os.close(reader)
    assert (folder / "pipe").is_fifo()
    assert names(folder) == ["pipe"]


def test_writing_many_files_reads_their_folder_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Any] = []
    scandir = os.scandir

    def count(path: Any) -> Any:
        read.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", count)
    for number in range(50):
        write_atomic(folder / f"{number}.json", "{}")
    assert len(read) == 1
    assert len(names(folder)) == 50
