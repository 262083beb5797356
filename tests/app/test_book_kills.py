"""A book under kill -9, twenty times; `benchmarks/run cpu --only book_kills` does it 200 times."""

from __future__ import annotations

from pathlib import Path

from benchmarks.book_kills import Book, killing

KILLS = 20


def test_a_killed_book_goes_on_and_ends_as_if_nothing_had_happened(tmp_path: Path) -> None:
    tried = killing(Book(tmp_path / "books"), KILLS, seed=5)
    assert tried.num_kills == KILLS
    assert tried.wrong == []
    assert tried.num_after_stored >= KILLS / 2
    assert tried.num_writing >= 1
    # What the worker has at hand, and what it has done and nobody has stored yet.
    assert max(tried.twice) <= 2 * tried.largest_batch
