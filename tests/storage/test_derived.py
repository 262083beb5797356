"""Derived files: kept in one folder, checked when they are read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from anyrig.storage import derived


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(derived, "_folder", None)
    derived.set_folder(tmp_path / "derived")
    return tmp_path / "derived"


def _path(*origins: str) -> Path:
    path = derived.find_path("table", *origins)
    assert path is not None
    return path


def test_what_was_written_is_read(folder: Path) -> None:
    assert derived.read(_path("a")) is None
    derived.write(_path("a"), b"some ", b"bytes")
    found = derived.read(_path("a"))
    assert found is not None
    assert bytes(found) == b"some bytes"
    assert derived.read(_path("b")) is None


@pytest.mark.parametrize("damage", ["flip", "cut", "empty"])
def test_a_damaged_file_is_not_used(folder: Path, damage: str) -> None:
    derived.write(_path("a"), b"some bytes")
    data = bytearray(_path("a").read_bytes())
    if damage == "flip":
        data[3] ^= 1
    _path("a").write_bytes(data[:0] if damage == "empty" else data[: -1 if damage == "cut" else 99])
    assert derived.read(_path("a")) is None
    derived.write(_path("a"), b"some bytes")
    assert derived.read(_path("a")) is not None


def test_a_file_under_another_name_is_not_used(folder: Path) -> None:
    derived.write(_path("a"), b"some bytes")
    os.replace(_path("a"), _path("b"))
    assert derived.read(_path("b")) is None


@pytest.mark.skipif(os.name == "nt", reason="no modes on Windows")
def test_a_file_that_others_can_write_is_not_used(folder: Path) -> None:
    derived.write(_path("a"), b"some bytes")
    _path("a").chmod(0o666)
    assert derived.read(_path("a")) is None


def test_nothing_is_kept_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(derived, "_folder", None)
    derived.set_folder(Path("cache"))
    assert derived.find_path("table", "a") is None


def test_a_folder_that_cannot_be_written_is_no_error(folder: Path) -> None:
    folder.write_bytes(b"a file where the folder should be")
    derived.write(_path("a"), b"some bytes")
    assert derived.read(_path("a")) is None


def test_old_versions_are_deleted(folder: Path) -> None:
    for number in range(7):
        derived.write(_path(str(number)), b"some bytes")
        os.utime(_path(str(number)), (number, number))
    left = [number for number in range(7) if derived.read(_path(str(number))) is not None]
    assert left == [3, 4, 5, 6]


def test_what_another_process_derived_is_not_built_again(folder: Path) -> None:
    builds = []

    def build() -> bytes:
        builds.append(1)
        return b"some bytes"

    assert derived.derive("table", "a", build=build) == b"some bytes"
    assert derived.derive("table", "a", build=build) == b"some bytes"
    assert len(builds) == 1
    _path("a").write_bytes(b"damaged")
    assert derived.derive("table", "a", build=build) == b"some bytes"
    assert len(builds) == 2
    assert derived.derive("table", "b", build=build) == b"some bytes"
    assert len(builds) == 3


def test_without_a_folder_it_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derived, "_folder", None)
    assert derived.derive("table", "a", build=lambda: b"some bytes") == b"some bytes"
