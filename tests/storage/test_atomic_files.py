from __future__ import annotations

import os
from pathlib import Path

import pytest

from anyrig.storage.files import lock_file, read_versioned, write_atomic, write_versioned


def test_write_atomic(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    write_atomic(path, "old")
    write_atomic(path, "new ü")
    assert path.read_text(encoding="utf-8") == "new ü"
    assert os.listdir(path.parent) == ["file.json"]


def test_a_failed_write_leaves_the_old_file(
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


def test_lock_file(tmp_path: Path) -> None:
    with lock_file(tmp_path / "lock", 0) as first, lock_file(tmp_path / "lock", 0.05) as second:
        assert (first, second) == (True, False)
    with lock_file(tmp_path / "lock", 0) as again, lock_file(tmp_path / "none" / "lock", 0) as none:
        assert (again, none) == (True, True)


def test_versioned_json(tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    assert read_versioned(path, 1) == {}
    write_versioned(path, 1, {"limits": {"a": 1}})
    assert read_versioned(path, 1) == {"limits": {"a": 1}}
    assert read_versioned(path, 2) == {}
    for text in ("{", "[]", '"format"', "\x00"):
        path.write_text(text)
        assert read_versioned(path, 1) == {}
