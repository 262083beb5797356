from __future__ import annotations

import os
from pathlib import Path

import pytest

from anyrig.storage import atomic


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.json"
    atomic.write_text(path, "old")
    atomic.write_text(path, "new ü")
    assert path.read_text(encoding="utf-8") == "new ü"
    assert os.listdir(path.parent) == ["file.json"]


def test_a_failed_write_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.json"
    atomic.write_text(path, "old")

    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="disk full"):
        atomic.write_text(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert os.listdir(tmp_path) == [path.name] or set(os.listdir(tmp_path)) == {
        path.name, "home", "work",
    }  # fmt: skip
