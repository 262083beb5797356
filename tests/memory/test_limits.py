"""Known limits: kept, merged with what others wrote, never in the way of work."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from anyrig.memory.limits import Key, Known, Limits

KEY = Key("GPU-1", "minilm", "1.0", "fp16", "driver 580; torch 2.11")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "limits.json"


def test_what_was_seen_is_found_again(path: Path) -> None:
    Limits.load(path).record(KEY, worked=64.0, peak_bytes=1000)
    Limits.load(path).record(KEY, failed=128.5)
    known = Limits.load(path).of(KEY)
    assert known is not None
    assert (known.worked, known.failed, known.peak_bytes) == (64.0, 128.5, 1000)
    assert known.when


@pytest.mark.parametrize("part", range(5))
def test_another_device_engine_version_format_or_driver_is_another_limit(
    path: Path, part: int
) -> None:
    limits = Limits.load(path)
    limits.record(KEY, worked=64.0)
    other = [*KEY]
    other[part] = "other"
    assert limits.of(Key(*other)) is None


def test_the_newer_wins_where_they_contradict() -> None:
    known = Known().joined(64.0, None, 5, "a").joined(None, 128.0, None, "b")
    assert known == Known(64.0, 128.0, 5, "b")
    more = known.joined(128.0, None, 9, "c")
    assert more == Known(128.0, None, 9, "c")
    less = known.joined(None, 32.0, None, "d")
    assert less == Known(None, 32.0, None, "d")
    assert known.joined(8.0, None, 1, "e") == Known(8.0, 128.0, 1, "e")
    assert known.joined(None, 200.0, None, "f").failed == 128.0


def test_processes_do_not_lose_each_others_limits(path: Path) -> None:
    """Real processes, all at once."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom anyrig.memory.limits import Key, Limits\n"
        "limits = Limits.load(Path(sys.argv[1]))\n"
        "for n in range(20): limits.record(Key(sys.argv[2], str(n), ''), worked=float(n))\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(path), name]) for name in "abcd"]
    assert [one.wait(timeout=60) for one in running] == [0] * 4
    limits = Limits.load(path)
    assert all(limits.of(Key(name, str(n), "")) for name in "abcd" for n in range(20))


@pytest.mark.parametrize(
    "text",
    ["", "no json", "[]", '{"format": 9, "limits": {}}', '{"format": 1}',
     '{"format": 1, "limits": {"a": {"worked": "many"}}}',
     '{"format": 1, "limits": {"a": {"other": 1}}}', '{"format": 1, "limits": {"a": 3}}'],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_empty(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.write_text(text)
    limits = Limits.load(path)
    assert limits.of(KEY) is None
    limits.record(KEY, worked=1.0)
    assert json.loads(path.read_text())["limits"]


def test_a_folder_that_cannot_be_written_costs_no_work(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "blocked").write_text("")
    limits = Limits.load(tmp_path / "blocked" / "limits.json")
    with caplog.at_level(logging.WARNING):
        assert limits.record(KEY, worked=3.0).worked == 3.0
    assert "not kept" in caplog.text
    known = limits.of(KEY)
    assert known is not None
    assert known.worked == 3.0
