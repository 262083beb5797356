"""A list of jobs that another process has in use is told apart from a disk that is full."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from anyrig.errors import StorageBusyError
from anyrig.jobs import LocalJobs, file


def test_a_file_in_use_by_others_is_busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file, "BUSY_S", 0.1)
    path = tmp_path / "jobs.sqlite"
    with LocalJobs(path) as jobs:
        jobs.submit("bench", {})
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StorageBusyError, match="in use by another process") as caught:
            jobs.submit("bench", {})
        assert "try again" in caught.value.hint
        other.execute("ROLLBACK")
        other.close()
        assert len([jobs.submit("bench", {}), *jobs.list()]) == 3
