"""A book under kill -9, twenty times; `benchmarks/run cpu --only book_kills` does it 200 times."""

from __future__ import annotations

from pathlib import Path

from benchmarks.book_kills import BookRun, kill_books

KILLS = 20


def test_a_killed_book_goes_on_and_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    report = kill_books(BookRun(tmp_path / "books"), KILLS, seed=5)
    assert report.num_kills == KILLS
    assert report.failures == []
    assert report.phases["stored"] >= KILLS / 2
    assert report.phases["writing"] >= 1
    # What the worker has at hand, and what it has done and nobody has stored yet.
    assert max(report.figures["repeated_per_kill"]) <= 2 * report.figures["largest_batch"]
