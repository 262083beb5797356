"""Files that are written whole or not at all, and locks between processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from anyrig.storage.files import FileLock, write_atomic


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    write_atomic(path, "old")
    write_atomic(path, "new ü")
    assert path.read_text(encoding="utf-8") == "new ü"
    assert os.listdir(path.parent) == ["file.json"]


def test_a_failed_write_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    write_atomic(path, "old")

    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == [path.name] or set(os.listdir(tmp_path)) == {
        path.name, "home", "work",
    }  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="no lock is needed there")
def test_a_lock_is_exclusive_or_shared(tmp_path: Path) -> None:
    one, two, three = (FileLock(tmp_path / "lock") for _ in range(3))
    one.acquire_shared()
    two.acquire_shared()
    with three.exclusive(wait_s=0) as alone:
        assert not alone
    one.release()
    two.release()
    with three.exclusive(wait_s=0) as alone, one.exclusive(wait_s=0.05) as other:
        assert (alone, other) == (True, False)
    nowhere = FileLock(tmp_path / "none" / "lock")
    nowhere.acquire_shared()
    nowhere.release()
    with nowhere.exclusive(wait_s=0) as alone:
        assert alone
