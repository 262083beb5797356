"""Archives: exported, imported, and refused as a whole when altered, truncated or malicious."""

from __future__ import annotations

import hashlib
import json
import os
import random
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from anyrig.errors import InvalidArchiveError, InvalidInputError, StorageError
from anyrig.storage import archive
from anyrig.storage.cache import ResultCache
from anyrig.storage.keys import JsonValue

Rows = list[dict[str, Any]]


@pytest.fixture
def full(tmp_path: Path) -> Iterator[ResultCache]:
    with ResultCache(tmp_path / "full") as cache:
        for number in range(12):
            kind = "page" if number % 3 == 0 else "speech"
            note: dict[str, JsonValue] = {"engine": "tone", "number": number, "text": "ü\ud83d"}
            cache.put(f"key-{number}", random.randbytes(number * 500), kind=kind, metadata=note)
        yield cache


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[ResultCache]:
    with ResultCache(tmp_path / "empty") as cache:
        yield cache


def test_export_and_import(full: ResultCache, empty: ResultCache, tmp_path: Path) -> None:
    path, progress = tmp_path / "out.zip", []
    before = full.stats().counters
    done = archive.export_results(full, path, on_progress=lambda *numbers: progress.append(numbers))
    assert (done.num_results, done.data_bytes) == (12, sum(n * 500 for n in range(12)))
    assert progress[-1] == (12, 12)
    assert full.stats().counters == before  # it is no use
    progress.clear()
    assert archive.import_results(
        empty, path, on_progress=lambda *numbers: progress.append(numbers)
    ) == (12, 12)
    assert progress[-1] == (24, 24)
    for one, other in zip(full.iter_results(), empty.iter_results(), strict=True):
        assert (one.key, one.kind, one.data, one.metadata) == (
            other.key, other.kind, other.data, other.metadata,
        )  # fmt: skip
    assert archive.import_results(empty, path) == (12, 0)


def test_the_archive_is_a_plain_zip(full: ResultCache, tmp_path: Path) -> None:
    archive.export_results(full, tmp_path / "out.zip", kind="page")
    with zipfile.ZipFile(tmp_path / "out.zip") as file:
        assert file.testzip() is None
        head, *rows, end = [json.loads(line) for line in file.read("manifest.jsonl").splitlines()]
        assert head == {"format": "anyrig results", "version": 1}
        assert end == {"end": 4}
        for row in rows:
            assert hashlib.sha256(file.read(row["file"])).hexdigest() == row["sha256"]
            assert row["kind"] == "page"


def test_import_replaces_nothing(full: ResultCache, empty: ResultCache, tmp_path: Path) -> None:
    archive.export_results(full, tmp_path / "out.zip")
    empty.put("key-3", b"mine", kind="speech")
    assert archive.import_results(empty, tmp_path / "out.zip") == (12, 11)
    found = empty.get("key-3")
    assert found is not None
    assert found.data == b"mine"


def test_a_failed_export_leaves_nothing(full: ResultCache, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(StorageError):
        archive.export_results(full, full.path / "out.zip")  # in a file as if it were a folder
    out = folder / "out.zip"
    out.write_text("old")

    def stop(done: int, _: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        archive.export_results(full, out, on_progress=stop)
    assert out.read_text() == "old"
    assert os.listdir(folder) == ["out.zip"]


def test_an_archive_larger_than_the_limit(full: ResultCache, tmp_path: Path) -> None:
    archive.export_results(full, tmp_path / "out.zip")
    with ResultCache(tmp_path / "tiny", limit_bytes=10_000) as tiny:
        with pytest.raises(InvalidInputError, match="limit") as caught:
            archive.import_results(tiny, tmp_path / "out.zip")
        assert "cache.limit_gb" in caught.value.hint
        assert tiny.stats().num_results == 0


def test_truncated_archives(full: ResultCache, empty: ResultCache, tmp_path: Path) -> None:
    archive.export_results(full, tmp_path / "out.zip")
    data = (tmp_path / "out.zip").read_bytes()
    chance = random.Random(1)
    for length in [0, 1, 50, len(data) - 1, *(chance.randrange(len(data)) for _ in range(20))]:
        (tmp_path / "cut.zip").write_bytes(data[:length])
        with pytest.raises(InvalidArchiveError):
            archive.import_results(empty, tmp_path / "cut.zip")
    assert empty.stats().num_results == 0


def test_altered_archives(full: ResultCache, empty: ResultCache, tmp_path: Path) -> None:
    """One byte: refused with nothing imported, or of no importance and everything is right."""
    archive.export_results(full, tmp_path / "out.zip")
    data = (tmp_path / "out.zip").read_bytes()
    chance = random.Random(2)
    refused = 0
    # The last part holds zip's own tables, where much can be said wrongly.
    places = [chance.randrange(len(data)) for _ in range(60)]
    places += [chance.randrange(len(data) - 1500, len(data)) for _ in range(100)]
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 1 << chance.randrange(8)
        (tmp_path / "bad.zip").write_bytes(changed)
        try:
            archive.import_results(empty, tmp_path / "bad.zip")
        except InvalidArchiveError:
            refused += 1
            assert empty.stats().num_results == 0, place
        else:
            for one, other in zip(full.iter_results(), empty.iter_results(), strict=True):
                assert (one.key, one.data, one.metadata) == (other.key, other.data, other.metadata)
            empty.prune(to_bytes=0)
    assert refused > 80


def _make_archive(
    path: Path, change: Callable[[Rows], object], extra: Mapping[str, bytes] = {}
) -> Path:
    """An archive of one result, with its manifest changed."""
    data = b"sound" * 1000
    rows: Rows = [
        {"format": "anyrig results", "version": 1},
        {"file": "data/00000001", "key": "a", "kind": "speech", "note": {}, "size": len(data),
         "sha256": hashlib.sha256(data).hexdigest()},
        {"end": 1},
    ]  # fmt: skip
    change(rows)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data/00000001", data)
        for name, content in extra.items():
            file.writestr(name, content)
        file.writestr("manifest.jsonl", b"".join(json.dumps(r).encode() + b"\n" for r in rows))
    return path


def _keep(rows: Rows) -> None:
    """A manifest as it should be."""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: r[0].update(format="other"), "not written by anyrig"),
        (lambda r: r[0].update(version=2), "format is 2"),
        (lambda r: (r.pop(1), r[1].update(end=0)), "each of its files once"),
        (lambda r: r.pop(2), "truncated"),
        (lambda r: (r.insert(1, r[1]), r[3].update(end=2)), "not valid"),
        (lambda r: r[1].update(file="../../etc/passwd"), "not valid"),
        (lambda r: r[1].update(size=4), "does not match its file"),
        (lambda r: r[1].update(sha256="0" * 64), "does not match its checksum"),
        (lambda r: r[1].update(key=""), "not a valid cache key"),
        (lambda r: r[1].pop("note"), "not valid"),
    ],
)  # fmt: skip
def test_invalid_manifests(
    empty: ResultCache, tmp_path: Path, change: Callable[[Rows], object], words: str
) -> None:
    with pytest.raises(InvalidArchiveError, match=words) as caught:
        archive.import_results(empty, _make_archive(tmp_path / "x.zip", change))
    assert "anyrig cache export" in caught.value.hint
    assert empty.stats().num_results == 0


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "data/../../evil", "C:\\evil"])
def test_names_outside_of_the_archive(empty: ResultCache, tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArchiveError, match="unexpected file"):
        archive.import_results(empty, _make_archive(tmp_path / "x.zip", _keep, {name: b"x"}))
    assert sorted(os.listdir(tmp_path)) == ["home", "work", "x.zip"]


def test_compressed_members_are_refused(empty: ResultCache, tmp_path: Path) -> None:
    """A file of a megabyte that unfolds to a gigabyte: compressed members are refused unread."""
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        with file.open("data/00000001", "w") as member:
            for _ in range(64):
                member.write(bytes(1 << 20))
        file.writestr("manifest.jsonl", b"{}")
    with pytest.raises(InvalidArchiveError, match="unexpected file"):
        archive.import_results(empty, path)


def test_overlapping_members_are_refused(empty: ResultCache, tmp_path: Path) -> None:
    """Many members over the same bytes: together they claim more than the file has."""
    path = _make_archive(tmp_path / "x.zip", _keep)
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
        archive.import_results(empty, path)


@pytest.mark.parametrize("content", [b"", b"text"])
def test_files_that_are_not_archives(empty: ResultCache, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(InvalidArchiveError):
        archive.import_results(empty, tmp_path / "x")
    with pytest.raises(InvalidArchiveError, match="cannot read"):
        archive.import_results(empty, tmp_path / "none")


def test_a_cache_file_is_not_an_archive(full: ResultCache, empty: ResultCache) -> None:
    full.scrub()
    damaged = full.path.with_name("full.corrupt-20260101-000000")
    damaged.write_bytes(full.path.read_bytes()[:5000])
    for path in (full.path, damaged):
        with pytest.raises(InvalidArchiveError, match="is a cache file, not an archive") as caught:
            archive.import_results(empty, path)
        assert "computed again" in caught.value.hint
    assert empty.stats().num_results == 0


def test_a_full_disk_during_import(full: ResultCache, empty: ResultCache, tmp_path: Path) -> None:
    """SQLite's own bound on pages answers as a full disk does."""
    archive.export_results(full, tmp_path / "out.zip")
    empty.put("first", b"", kind="speech")
    pages = empty.stats().used_bytes // 4096
    empty.file.run_script(f"PRAGMA max_page_count = {pages + 4}")
    with pytest.raises(StorageError, match="No space left") as caught:
        archive.import_results(empty, tmp_path / "out.zip")
    count = empty.stats().num_results - 1
    assert 0 < count < 12
    assert f"only {count} of 12 results were imported" in caught.value.message
    assert "import again" in caught.value.hint
