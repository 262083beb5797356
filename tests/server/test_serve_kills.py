"""A server under kill -9, three times in a book; `benchmarks/run cpu --only serve_kills` has 50."""

from __future__ import annotations

from pathlib import Path

from benchmarks.serve_kills import kill_servers

KILLS = 3


def test_a_job_outlives_its_server_and_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    report = kill_servers(tmp_path, KILLS)
    assert report.failures == []
    assert report.num_kills == KILLS
    assert report.phases["making"] + report.phases["writing"] >= 1
