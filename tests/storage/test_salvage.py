"""Damaged stores: what is whole in them comes back, whatever part of the file is lost."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from anyrig.errors import InvalidArchiveError
from anyrig.storage import archive
from anyrig.storage.database import set_aside
from anyrig.storage.results import Store


def _content(number: int) -> bytes:
    return (b"%d " % number * 9000)[: (7, 300, 5000, 16_000, 16_001)[number % 5]]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Small and large results, 500 of them."""
    path = tmp_path / "r"
    with Store(path) as store:
        for number in range(500):
            note = {"engine": "tone", "text": "ü" * number}
            store.put(f"k{number}", _content(number), kind="speech", note=note)
    return path


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "other") as store:
        yield store


def _right(store: Store) -> int:
    """How many are there; each is what was kept."""
    found = list(store.each())
    assert all(result.data == _content(int(result.key[1:])) for result in found)
    return len(found)


def test_a_whole_store(kept: Path, other: Store) -> None:
    assert archive.import_(other, kept) == (500, 500, 0)
    assert _right(other) == 500


def test_a_store_that_is_cut_off_is_set_aside_and_comes_back(kept: Path) -> None:
    os.truncate(kept, 1_000_000)
    told: list[tuple[int, int]] = []
    with Store(kept) as store:
        assert store.size().num_results == 0
        (aside,) = set_aside(kept)
        done = archive.import_(store, aside, tell=lambda *numbers: told.append(numbers))
        assert done.num_new > 80  # of 3.7 MB a good quarter is there
        assert done.num_new + done.num_bad == done.num_results
        assert told[-1] == (done.num_results, done.num_results)
        assert _right(store) == done.num_new
    beside = {file.name for file in kept.parent.glob(f"{aside.name}-*")}
    assert not beside & {f"{aside.name}-shm", f"{aside.name}-wal"}


@pytest.mark.parametrize("size", [16, 100, 4096])
def test_a_store_without_its_beginning(kept: Path, other: Store, size: int) -> None:
    with kept.open("r+b") as file:
        file.write(random.randbytes(size))
    assert archive.import_(other, kept) == (500, 500, 0)
    assert _right(other) == 500


def test_lost_pages_take_only_their_own_results_along(kept: Path, other: Store) -> None:
    """The roots of the tables, from which SQLite finds every row, are among them."""
    data = bytearray(kept.read_bytes())
    for page in (2, 3, 4, 5, 6, 7, 8, 200, 201):
        data[page * 4096 : (page + 1) * 4096] = random.randbytes(4096)
    kept.write_bytes(data)
    assert archive.import_(other, kept).num_new > 400
    assert _right(other) > 400


def test_what_stands_in_the_log_alone(tmp_path: Path, other: Store) -> None:
    with Store(tmp_path / "r") as store:
        for number in range(50):
            store.put(f"k{number}", _content(number), kind="speech")
        for end in ("", "-wal"):
            shutil.copy(tmp_path / f"r{end}", tmp_path / f"copy{end}")
    before = sorted(os.listdir(tmp_path))
    assert archive.import_(other, tmp_path / "copy") == (50, 50, 0)
    assert _right(other) == 50
    assert set(os.listdir(tmp_path)) - set(before) <= {"other", "other-wal", "other-shm"} | {
        "other.lock"
    }


def test_what_was_dropped_stays_dropped(kept: Path, other: Store) -> None:
    with Store(kept) as store:
        for number in range(0, 400):
            store.drop(f"k{number}")
        store.replace("k450", b"a better take", kind="speech")
    assert archive.import_(other, kept) == (100, 100, 0)
    found = other.get("k450")
    assert found
    assert found.data == b"a better take"


@pytest.mark.parametrize("content", [b"", b"rubbish" * 3000, b"SQLite format 3\0" + b"\r" * 9000])
def test_a_damaged_store_without_anything_readable(
    tmp_path: Path, other: Store, content: bytes
) -> None:
    path = tmp_path / "r.corrupt-20260101-000000"
    path.write_bytes(content)
    with pytest.raises(
        InvalidArchiveError, match="damaged store of which nothing could be read"
    ) as caught:
        archive.import_(other, path)
    assert "Delete it" in caught.value.hint


def test_a_store_of_a_newer_form(kept: Path, other: Store) -> None:
    with kept.open("r+b") as file:
        file.seek(60)
        file.write((2).to_bytes(4, "big"))
    with pytest.raises(InvalidArchiveError, match="newer anyrig"):
        archive.import_(other, kept)


def test_files_beside_a_store_that_was_set_aside_are_none_themselves(tmp_path: Path) -> None:
    for end in ("", "-shm", "-wal", "-journal"):
        (tmp_path / f"r.corrupt-1{end}").write_bytes(b"")
    assert set_aside(tmp_path / "r") == (tmp_path / "r.corrupt-1",)
