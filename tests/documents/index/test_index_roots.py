"""A folder that cannot be looked at keeps its entries in the index; a deleted file does not."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anyrig.documents.index.remove import remove_files
from anyrig.documents.index.status import read_status
from anyrig.documents.index.update import IndexChanges, update_index
from tests.documents.index.bag import Bag
from tests.documents.index.folder import TextReader, index, write


def update_all(path: Path) -> IndexChanges:
    return update_index(path, [], Bag(), TextReader())


@pytest.mark.parametrize("name", ["My.Passport", "letters.2024", "docs", "notes.txt", ".hidden.d"])
def test_a_missing_folder_keeps_its_files(tmp_path: Path, name: str) -> None:
    root, path = tmp_path / name, tmp_path / "i.sqlite"
    write(root, {"a.txt": "An owl.", "inner/b.txt": "A hare."})
    index(path, root, Bag())
    root.rename(tmp_path / "unplugged")
    done = update_all(path)
    assert (done.num_gone, read_status(path).num_files) == (0, 2)
    (warning,) = done.warnings
    assert str(root) in warning
    assert "its 2 files stayed in the index" in warning
    assert f"anyrig index --index i --remove {root}" in warning


def test_an_empty_mount_point_keeps_its_files(tmp_path: Path) -> None:
    root, path = tmp_path / "My.Passport", tmp_path / "i.sqlite"
    write(root, {"a.txt": "An owl."})
    index(path, root, Bag())
    root.rename(tmp_path / "unplugged")
    root.mkdir()
    for done in (update_all(path), index(path, root, Bag())):
        assert (done.num_gone, read_status(path).num_files) == (0, 1)
        assert "its 1 file stayed in the index" in done.warnings[0]


def test_a_new_empty_folder_is_no_reason_for_a_warning(tmp_path: Path) -> None:
    root, path = tmp_path / "docs", tmp_path / "i.sqlite"
    root.mkdir()
    assert index(path, root, Bag()).warnings == []


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO, errno.ENOTCONN])
@pytest.mark.parametrize("call", ["stat", "scandir", "listdir"])
def test_a_folder_that_fails_to_list_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    root, path = tmp_path / "letters.2024", tmp_path / "i.sqlite"
    write(root, {"a.txt": "An owl.", "inner/b.txt": "A hare."})
    index(path, root, Bag())
    real: Callable[..., Any] = getattr(os, call)

    def fail(name: Any = ".", *rest: Any, **more: Any) -> Any:
        if not isinstance(name, int) and os.fsdecode(name).startswith(str(root)):
            raise OSError(code, os.strerror(code), os.fsdecode(name))
        return real(name, *rest, **more)

    monkeypatch.setattr(os, call, fail)
    done = update_all(path)
    monkeypatch.undo()
    assert (done.num_gone, read_status(path).num_files) == (0, 2)
    assert os.strerror(code) in done.warnings[0]


def test_a_file_that_fails_to_open_is_not_taken_for_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, path = tmp_path / "docs", tmp_path / "i.sqlite"
    write(root, {"a.txt": "An owl.", "b.txt": "A hare."})
    index(path, root, Bag())
    real = os.stat

    def fail(name: Any, *rest: Any, **more: Any) -> Any:
        if not isinstance(name, int) and os.fsdecode(name) == str(root / "a.txt"):
            raise OSError(errno.EIO, "Input/output error", os.fsdecode(name))
        return real(name, *rest, **more)

    monkeypatch.setattr(os, "stat", fail)
    done = update_all(path)
    monkeypatch.undo()
    assert (done.num_gone, read_status(path).num_files) == (0, 2)


@pytest.mark.parametrize("name", ["notes.txt", "README"])
def test_a_deleted_file_that_was_a_root_is_forgotten(tmp_path: Path, name: str) -> None:
    root, path = tmp_path / "docs" / name, tmp_path / "i.sqlite"
    write(root.parent, {name: "An owl sat on the gate."})
    index(path, root, Bag())
    root.unlink()
    done = update_all(path)
    assert (done.num_gone, done.warnings, read_status(path).num_files) == (1, [], 0)
    assert update_all(path).warnings == []
    write(root.parent, {name: "A hare sat on the gate."})
    assert update_all(path).num_new == 1


def test_a_file_on_a_drive_that_is_missing_is_kept(tmp_path: Path) -> None:
    root, path = tmp_path / "My.Passport" / "notes.txt", tmp_path / "i.sqlite"
    write(root.parent, {"notes.txt": "An owl sat on the gate."})
    index(path, root, Bag())
    root.parent.rename(tmp_path / "unplugged")
    done = update_all(path)
    assert (done.num_gone, read_status(path).num_files) == (0, 1)
    assert "stayed in the index" in done.warnings[0]


@pytest.mark.parametrize("given", [True, False])
def test_a_missing_folder_inside_another_keeps_its_files(tmp_path: Path, given: bool) -> None:
    outer, path = tmp_path / "disks", tmp_path / "i.sqlite"
    write(outer, {"near.txt": "An owl.", "My.Passport/far.txt": "A hare."})
    index(path, outer / "My.Passport", Bag())
    index(path, outer, Bag())
    (outer / "My.Passport").rename(tmp_path / "unplugged")
    done = index(path, outer, Bag()) if given else update_all(path)
    assert (done.num_gone, read_status(path).num_files) == (0, 2)
    (outer / "near.txt").write_text("A fox.")
    assert update_all(path).num_changed == 1


def test_what_stayed_can_be_removed_on_purpose(tmp_path: Path) -> None:
    root, path = tmp_path / "My.Passport", tmp_path / "i.sqlite"
    write(root, {"a.txt": "An owl."})
    index(path, root, Bag())
    root.rename(tmp_path / "unplugged")
    removed = remove_files(path, [root], lambda *_: 0)
    assert (removed.files, read_status(path).num_files) == ((root / "a.txt",), 0)
