"""A server under kill -9, three times in a book; `benchmarks/run cpu --only serve_kills` has 50."""

from __future__ import annotations

from pathlib import Path

from benchmarks.serve_kills import killing

KILLS = 3


def test_a_job_outlives_its_server_and_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    tried = killing(tmp_path, KILLS)
    assert tried.wrong == []
    assert tried.num_kills == KILLS
    assert tried.num_making + tried.num_writing >= 1
