"""Known batch sizes: saved, merged with what other processes wrote, never blocking work."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from anyrig.memory.known_sizes import BatchSizeKey, KnownBatchSize, KnownBatchSizes

KEY = BatchSizeKey("GPU-1", "minilm", "1.0", "fp16", "driver 580; torch 2.11")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "limits.json"


def test_sizes_are_saved(path: Path) -> None:
    KnownBatchSizes(path).record(KEY, worked=64.0)
    KnownBatchSizes(path).record(KEY, failed=128.5)
    known = KnownBatchSizes(path).get(KEY)
    assert known is not None
    assert (known.worked, known.failed) == (64.0, 128.5)
    assert known.when


def test_a_file_of_an_older_version_is_read(path: Path) -> None:
    path.parent.mkdir()
    row = {"worked": 64.0, "failed": None, "peak_bytes": 1000, "when": "2026-01-01"}
    path.write_text(json.dumps({"format": 1, "limits": {str(KEY): row}}))
    assert KnownBatchSizes(path).get(KEY) == KnownBatchSize(64.0, None, "2026-01-01")


def test_every_part_of_the_key_counts(path: Path) -> None:
    sizes = KnownBatchSizes(path)
    sizes.record(KEY, worked=64.0)
    for field in KEY._fields:
        assert sizes.get(KEY._replace(**{field: "other"})) is None


def test_newer_observations_win() -> None:
    known = KnownBatchSize().add_success(64.0).add_failure(128.0)
    assert known == KnownBatchSize(64.0, 128.0)
    assert known.add_success(128.0) == KnownBatchSize(128.0, None)
    assert known.add_failure(32.0) == KnownBatchSize(None, 32.0)
    assert known.add_success(8.0) == KnownBatchSize(8.0, 128.0)
    assert known.add_failure(200.0).failed == 128.0


def test_concurrent_processes_keep_all_sizes(path: Path) -> None:
    """Real processes, all at once."""
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from anyrig.memory.known_sizes import KnownBatchSizes, BatchSizeKey\n"
        "sizes = KnownBatchSizes(Path(sys.argv[1]))\n"
        "for n in range(20): sizes.record(BatchSizeKey(sys.argv[2], str(n), ''), worked=float(n))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "abcd"]
    assert [one.wait(timeout=60) for one in running] == [0] * 4
    sizes = KnownBatchSizes(path)
    assert all(sizes.get(BatchSizeKey(name, str(n), "")) for name in "abcd" for n in range(20))


@pytest.mark.parametrize(
    "text",
    ["", "no json", "[]", '{"format": 9, "limits": {}}', '{"format": 1}',
     '{"format": 1, "limits": {"a": {"worked": "many"}}}',
     '{"format": 1, "limits": {"a": {"other": 1}}}', '{"format": 1, "limits": {"a": 3}}'],
)  # fmt: skip
def test_unreadable_file_counts_as_empty(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    sizes = KnownBatchSizes(path)
    assert sizes.get(KEY) is None
    sizes.record(KEY, worked=1.0)
    assert json.loads(path.read_text())["limits"]


def test_unwritable_folder_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "blocked").write_text("")
    sizes = KnownBatchSizes(tmp_path / "blocked" / "limits.json")
    with caplog.at_level(logging.WARNING):
        sizes.record(KEY, worked=3.0)
    assert "could not save" in caplog.text
    known = sizes.get(KEY)
    assert known is not None
    assert known.worked == 3.0
