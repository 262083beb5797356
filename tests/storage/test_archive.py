"""Archives: everything comes back; what was altered, cut off or made to harm is refused whole."""

from __future__ import annotations

import hashlib
import json
import os
import random
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anyrig.errors import InvalidArchiveError, InvalidInputError, StorageError
from anyrig.storage import archive
from anyrig.storage.key import Plain
from anyrig.storage.results import Store

Rows = list[dict[str, Any]]


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "full") as store:
        for number in range(12):
            kind = "page" if number % 3 == 0 else "speech"
            note: dict[str, Plain] = {"engine": "tone", "number": number, "text": "ü\ud83d"}
            store.put(f"key-{number}", random.randbytes(number * 500), kind=kind, note=note)
        yield store


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "empty") as store:
        yield store


def test_there_and_back(full: Store, empty: Store, tmp_path: Path) -> None:
    path, told = tmp_path / "out.zip", []
    before = full.size().counters
    done = archive.export(full, path, tell=lambda *numbers: told.append(numbers))
    assert (done.num_results, done.data_bytes) == (12, sum(n * 500 for n in range(12)))
    assert told[-1] == (12, 12)
    assert full.size().counters == before  # it is no use
    told.clear()
    assert archive.import_(empty, path, tell=lambda *numbers: told.append(numbers)) == (12, 12, 0)
    assert told[-1] == (24, 24)
    for one, other in zip(full.each(), empty.each(), strict=True):
        assert (one.key, one.kind, one.data, one.note) == (
            other.key, other.kind, other.data, other.note,
        )  # fmt: skip
    assert archive.import_(empty, path) == (12, 0, 0)


def test_any_zip_program_can_read_it(full: Store, tmp_path: Path) -> None:
    archive.export(full, tmp_path / "out.zip", kind="page")
    with zipfile.ZipFile(tmp_path / "out.zip") as file:
        assert file.testzip() is None
        head, *rows, end = [json.loads(line) for line in file.read("manifest.jsonl").splitlines()]
        assert head == {"format": "anyrig results", "version": 1}
        assert end == {"end": 4}
        for row in rows:
            assert hashlib.sha256(file.read(row["file"])).hexdigest() == row["sha256"]
            assert row["kind"] == "page"


def test_what_is_kept_stays(full: Store, empty: Store, tmp_path: Path) -> None:
    archive.export(full, tmp_path / "out.zip")
    empty.put("key-3", b"mine", kind="speech")
    assert archive.import_(empty, tmp_path / "out.zip") == (12, 11, 0)
    found = empty.get("key-3")
    assert found is not None
    assert found.data == b"mine"


def test_a_failed_export_leaves_nothing(full: Store, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(StorageError):
        archive.export(full, full.path / "out.zip")  # in a file as if it were a folder
    out = folder / "out.zip"
    out.write_text("old")

    def stop(done: int, _: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        archive.export(full, out, tell=stop)
    assert out.read_text() == "old"
    assert os.listdir(folder) == ["out.zip"]


def test_an_archive_larger_than_the_store(full: Store, tmp_path: Path) -> None:
    archive.export(full, tmp_path / "out.zip")
    with Store(tmp_path / "tiny", limit_bytes=10_000) as tiny:
        with pytest.raises(InvalidInputError, match="limit") as caught:
            archive.import_(tiny, tmp_path / "out.zip")
        assert "cache.limit_gb" in caught.value.hint
        assert tiny.size().num_results == 0


# -- archives that are wrong -------------------------------------------------------------------


def test_cut_off_anywhere(full: Store, empty: Store, tmp_path: Path) -> None:
    archive.export(full, tmp_path / "out.zip")
    data = (tmp_path / "out.zip").read_bytes()
    chance = random.Random(1)
    for length in [0, 1, 50, len(data) - 1, *(chance.randrange(len(data)) for _ in range(60))]:
        (tmp_path / "cut.zip").write_bytes(data[:length])
        with pytest.raises(InvalidArchiveError):
            archive.import_(empty, tmp_path / "cut.zip")
    assert empty.size().num_results == 0


def test_altered_anywhere(full: Store, empty: Store, tmp_path: Path) -> None:
    """One byte: refused with nothing imported, or of no importance and everything is right."""
    archive.export(full, tmp_path / "out.zip")
    data = (tmp_path / "out.zip").read_bytes()
    chance = random.Random(2)
    refused = 0
    # The last part holds zip's own tables, where much can be said wrongly.
    places = [chance.randrange(len(data)) for _ in range(150)]
    places += [chance.randrange(len(data) - 1500, len(data)) for _ in range(250)]
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 1 << chance.randrange(8)
        (tmp_path / "bad.zip").write_bytes(changed)
        try:
            archive.import_(empty, tmp_path / "bad.zip")
        except InvalidArchiveError:
            refused += 1
            assert empty.size().num_results == 0, place
        else:
            for one, other in zip(full.each(), empty.each(), strict=True):
                assert (one.key, one.data, one.note) == (other.key, other.data, other.note)
            empty.prune(to_bytes=0)
    assert refused > 200


def _made(path: Path, change: Callable[[Rows], object], extra: dict[str, bytes] | None = None,
          method: int = zipfile.ZIP_STORED) -> Path:  # fmt: skip
    """An archive of one result, with its manifest changed."""
    data = b"sound" * 1000
    rows: Rows = [
        {"format": "anyrig results", "version": 1},
        {"file": "data/00000001", "key": "a", "kind": "speech", "note": {}, "size": len(data),
         "sha256": hashlib.sha256(data).hexdigest()},
        {"end": 1},
    ]  # fmt: skip
    change(rows)
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("data/00000001", data)
        for name, content in (extra or {}).items():
            file.writestr(name, content)
        file.writestr("manifest.jsonl", b"".join(json.dumps(r).encode() + b"\n" for r in rows))
    return path


def _nothing(rows: Rows) -> None:
    """A manifest as it should be."""


def test_the_made_archive_is_right(empty: Store, tmp_path: Path) -> None:
    assert archive.import_(empty, _made(tmp_path / "x.zip", _nothing)) == (1, 1, 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r[0].update(format="other"), "no results of anyrig"),
        (lambda r: r[0].update(version=2), "form 2"),
        (lambda r: r.pop(0), "no results of anyrig"),
        (lambda r: r.pop(1), "missing"),
        (lambda r: (r.pop(1), r[1].update(end=0)), "one by one"),
        (lambda r: r.pop(2), "cut off"),
        (lambda r: (r.insert(1, r[1]), r[3].update(end=2)), "one by one"),
        (lambda r: r[1].update(file="../../etc/passwd"), "wrong"),
        (lambda r: r[1].update(file="/etc/passwd"), "wrong"),
        (lambda r: r[1].update(size=4), "does not fit"),
        (lambda r: r[1].update(sha256="0" * 64), "not what was exported"),
        (lambda r: r[1].update(key=""), "cannot be a key"),
        (lambda r: r[1].update(key=5), "does not fit"),
        (lambda r: r[1].update(kind="A B"), "cannot be a kind"),
        (lambda r: r[1].update(note=[]), "does not fit"),
        (lambda r: r[1].pop("note"), "wrong"),
        (lambda r: r.__setitem__(1, []), "cannot be read"),
    ],
)  # fmt: skip
def test_a_wrong_manifest(
    empty: Store, tmp_path: Path, change: Callable[[Rows], object], words: str
) -> None:
    with pytest.raises(InvalidArchiveError, match=words) as caught:
        archive.import_(empty, _made(tmp_path / "x.zip", change))
    assert "anyrig cache export" in caught.value.hint
    assert empty.size().num_results == 0


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/evil", "data/../../evil", "data/a/b", "C:\\evil", "data\\evil", "data/", "x"],
)
def test_names_that_lead_elsewhere(empty: Store, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArchiveError, match="no place in it"):
        archive.import_(empty, _made(tmp_path / "x.zip", _nothing, {name: b"x"}))
    assert sorted(os.listdir(tmp_path)) == ["home", "work", "x.zip"]


def test_a_bomb(empty: Store, tmp_path: Path) -> None:
    """A file of a megabyte that unfolds to a gigabyte: compressed members are refused unread."""
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        with file.open("data/00000001", "w") as member:
            for _ in range(64):
                member.write(bytes(1 << 20))
        file.writestr("manifest.jsonl", b"{}")
    with pytest.raises(InvalidArchiveError, match="no place in it"):
        archive.import_(empty, path)


def test_a_bomb_of_overlapping_files(empty: Store, tmp_path: Path) -> None:
    """Many members over the same bytes: together they claim more than the file has."""
    path = _made(tmp_path / "x.zip", _nothing)
    data = path.read_bytes()
    start = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    first = data[start : data.index(b"PK\x01\x02", start + 4)]
    many = b"".join(first.replace(b"data/00000001", f"data/{n:08d}".encode()) for n in range(2, 90))
    directory = data[start:end] + many
    count = (2 + 88).to_bytes(2, "little")
    tail = data[end : end + 8] + count * 2 + len(directory).to_bytes(4, "little") + data[end + 16 :]
    path.write_bytes(data[:start] + directory + tail)
    with zipfile.ZipFile(path) as file:
        assert len(file.infolist()) == 90
    with pytest.raises(InvalidArchiveError, match="overlap"):
        archive.import_(empty, path)


@pytest.mark.parametrize("content", [b"", b"PK", b"text", b"\x1f\x8b" + bytes(100)])
def test_no_archive_at_all(empty: Store, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(InvalidArchiveError):
        archive.import_(empty, tmp_path / "x")


def test_files_that_are_not_there(empty: Store, tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InvalidArchiveError, match="cannot read"):
            archive.import_(empty, path)


def test_the_store_is_not_its_own_archive(full: Store) -> None:
    with pytest.raises(InvalidArchiveError, match="the store itself"):
        archive.import_(full, full.path)


def test_a_database_without_anything_readable(empty: Store, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"SQLite format 3\0" + random.randbytes(5000))
    with pytest.raises((InvalidArchiveError, StorageError)):
        archive.import_(empty, tmp_path / "x")


def test_a_disk_that_is_full_in_the_middle(full: Store, empty: Store, tmp_path: Path) -> None:
    """SQLite's own bound on pages answers as a full disk does."""
    archive.export(full, tmp_path / "out.zip")
    empty.put("first", b"", kind="speech")
    pages = empty.size().used_bytes // 4096
    empty.database.maintain(f"PRAGMA max_page_count = {pages + 4}")
    with pytest.raises(StorageError, match="no room left") as caught:
        archive.import_(empty, tmp_path / "out.zip")
    count = empty.size().num_results - 1
    assert 0 < count < 12
    assert f"{count} of 12 were imported, the rest was not" in caught.value.message
    assert "import again" in caught.value.hint
