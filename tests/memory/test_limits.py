"""Batch size limits: saved, merged with what other processes wrote, never blocking work."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from anyrig.memory.limits import BatchSizeLimits, KnownLimit, LimitKey

KEY = LimitKey("GPU-1", "minilm", "1.0", "fp16", "driver 580; torch 2.11")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "limits.json"


def test_limits_are_saved(path: Path) -> None:
    BatchSizeLimits.load(path).record(KEY, worked=64.0, peak_bytes=1000)
    BatchSizeLimits.load(path).record(KEY, failed=128.5)
    known = BatchSizeLimits.load(path).get(KEY)
    assert known is not None
    assert (known.worked, known.failed, known.peak_bytes) == (64.0, 128.5, 1000)
    assert known.when


@pytest.mark.parametrize("part", range(5))
def test_every_part_of_the_key_counts(path: Path, part: int) -> None:
    limits = BatchSizeLimits.load(path)
    limits.record(KEY, worked=64.0)
    other = [*KEY]
    other[part] = "other"
    assert limits.get(LimitKey(*other)) is None


def update(
    known: KnownLimit, when: str, worked: float | None = None, failed: float | None = None,
    peak_bytes: int | None = None,
) -> KnownLimit:  # fmt: skip
    return known.update(worked=worked, failed=failed, peak_bytes=peak_bytes, when=when)


def test_newer_observations_win() -> None:
    known = update(update(KnownLimit(), "a", 64.0, peak_bytes=5), "b", failed=128.0)
    assert known == KnownLimit(64.0, 128.0, 5, "b")
    assert update(known, "c", 128.0, peak_bytes=9) == KnownLimit(128.0, None, 9, "c")
    assert update(known, "d", failed=32.0) == KnownLimit(None, 32.0, None, "d")
    assert update(known, "e", 8.0, peak_bytes=1) == KnownLimit(8.0, 128.0, 1, "e")
    assert update(known, "f", failed=200.0).failed == 128.0


def test_concurrent_processes_keep_all_limits(path: Path) -> None:
    """Real processes, all at once."""
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from anyrig.memory.limits import BatchSizeLimits, LimitKey\n"
        "limits = BatchSizeLimits.load(Path(sys.argv[1]))\n"
        "for n in range(20): limits.record(LimitKey(sys.argv[2], str(n), ''), worked=float(n))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "abcd"]
    assert [one.wait(timeout=60) for one in running] == [0] * 4
    limits = BatchSizeLimits.load(path)
    assert all(limits.get(LimitKey(name, str(n), "")) for name in "abcd" for n in range(20))


@pytest.mark.parametrize(
    "text",
    ["", "no json", "[]", '{"format": 9, "limits": {}}', '{"format": 1}',
     '{"format": 1, "limits": {"a": {"worked": "many"}}}',
     '{"format": 1, "limits": {"a": {"other": 1}}}', '{"format": 1, "limits": {"a": 3}}'],
)  # fmt: skip
def test_unreadable_file_counts_as_empty(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    limits = BatchSizeLimits.load(path)
    assert limits.get(KEY) is None
    limits.record(KEY, worked=1.0)
    assert json.loads(path.read_text())["limits"]


def test_unwritable_folder_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "blocked").write_text("")
    limits = BatchSizeLimits.load(tmp_path / "blocked" / "limits.json")
    with caplog.at_level(logging.WARNING):
        limits.record(KEY, worked=3.0)
    assert "could not save" in caplog.text
    known = limits.get(KEY)
    assert known is not None
    assert known.worked == 3.0
