"""kill -9 at random moments, many times: nothing acknowledged is lost, nothing is half."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from anyrig.storage.cache import ResultCache
from tests.conftest import ROOT
from tests.storage.kill_workers import SMALL_LIMIT, content

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")


def _start_driver(folder: Path, seed: int, kills: int, mode: str) -> subprocess.Popen[str]:
    path = os.pathsep.join((str(ROOT), str(ROOT / "src")))
    module = "tests.storage.kill_workers"
    return subprocess.Popen(
        [sys.executable, "-m", module, str(folder), str(seed), str(kills), mode],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "drivers", "kills"), [("wal", 2, 140), ("delete", 1, 30)], ids=["wal", "delete"]
)
def test_kill_at_any_moment_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, drivers: int, kills: int
) -> None:
    """Each driver kills two workers at a time, on the same two files."""
    running = [_start_driver(tmp_path, seed, kills, mode) for seed in range(1, drivers + 1)]
    acknowledged: list[str] = []
    for driver in running:
        out, err = driver.communicate(timeout=3600)
        assert driver.returncode == 0, err
        answer = json.loads(out)
        assert (answer["missing"], answer["wrong"]) == (0, 0)
        assert answer["kills"] >= kills
        acknowledged += answer["acknowledged"]
    assert len(acknowledged) > drivers * kills
    if mode == "delete":
        monkeypatch.setattr("anyrig.storage.sqlite.detect_network_drive", lambda path: "nfs4")
    with ResultCache(tmp_path / "kept") as kept:
        assert kept.has(acknowledged) == set(acknowledged)
        # What was kept and not yet acknowledged when the kill came is there as well, whole.
        assert kept.verify().num_bad == 0
        assert all(result.data == content(result.key) for result in kept.iter_results())
        assert "bad" not in kept.stats().counters
    with ResultCache(tmp_path / "small", limit_bytes=SMALL_LIMIT) as small:
        assert small.verify().num_bad == 0
        assert all(result.data == content(result.key) for result in small.iter_results())
        assert "bad" not in small.stats().counters
        # Killed jobs still hold what they put: that is all that may be over the limit.
        assert small.stats().file_bytes < 4 * SMALL_LIMIT + (16 << 20)
        small.prune(to_bytes=0, include_pinned=True)
        assert small.stats().file_bytes < 200_000
    for name in ("kept", "small"):
        _is_sound(tmp_path / name)
    assert not list(tmp_path.glob("*.corrupt-*"))


def _is_sound(path: Path) -> None:
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        stray = "SELECT count(*) FROM {} WHERE {} NOT IN (SELECT id FROM results)"
        for table, column in (("data", "id"), ("held", "result")):
            assert connection.execute(stray.format(table, column)).fetchall() == [(0,)]
        bare = "SELECT count(*) FROM results WHERE id NOT IN (SELECT id FROM data)"
        assert connection.execute(bare).fetchall() == [(0,)]
    finally:
        connection.close()
