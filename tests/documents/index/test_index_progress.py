"""The time that an index has left, by what its run has taken so far."""

from __future__ import annotations

import pytest

from anyrig.documents.index.progress import FilesPace, Pace, Progress
from anyrig.documents.index.rows import Stamp


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


def test_a_large_picture_does_not_spoil_the_time_left() -> None:
    """Thirty notes and a picture of 19 MB, a third of a second each: all is told in time."""
    clock = Clock()
    stamps = [Stamp(b"/a/%d.txt" % n, 2000, 0) for n in range(30)]
    stamps.append(Stamp(b"/a/scan.tiff", 19_000_000, 0))
    pace = FilesPace(stamps, clock)
    told: list[Progress] = []
    for stamp in stamps:
        clock.s += 0.2
        pace.read(stamp, 0.2, 2)
        for _ in range(2):
            clock.s += 0.05
            pace.embedded()
        pace.written(stamp)
        told.append(pace.now)
    guessed = [(one.left_s, clock.s - one.wall_s) for one in told if one.left_s is not None]
    assert len(guessed) > 20
    assert all(left == pytest.approx(true, abs=0.1) for left, true in guessed)
    assert [one.done for one in told] == sorted(one.done for one in told)
    assert (told[-1].done, told[-1].left_s) == (1.0, 0.0)


def test_nothing_is_guessed_before_enough_is_known() -> None:
    clock = Clock()
    stamps = [Stamp(b"/a/%d.png" % n, 500_000, 0) for n in range(40)]
    pace = FilesPace(stamps, clock)
    assert (pace.now.left_s, pace.now.done) == (None, 0.0)
    for stamp in stamps[:20]:
        clock.s += 1.0
        pace.read(stamp, 1.0, 3)
    assert pace.now.num_read == 20
    # Scans: reading them is nearly all of it.
    assert pace.now.left_s == pytest.approx(20.0)
    clock.s += 6.0
    for _ in range(60):
        pace.embedded()
        # A burst: the time of all has passed when the first is here, so it tells nothing yet.
        assert pace.now.left_s is None
    clock.s += 1.0
    # 20 files at 1 s to read, and their 60 passages at 0.1 s.
    assert pace.now.left_s == pytest.approx(26.0)
    assert pace.now.done == pytest.approx(27 / 53)


def test_what_vectors_take_is_not_known_before_one_came() -> None:
    clock = Clock()
    stamps = [Stamp(b"/a/%d.txt" % n, 500, 0) for n in range(40)]
    pace = FilesPace(stamps, clock)
    for stamp in stamps:
        clock.s += 0.01
        pace.read(stamp, 0.01, 30)
    clock.s = 5.0
    assert (pace.now.num_read, pace.now.left_s) == (40, None)
    for _ in range(600):
        pace.embedded()
    assert pace.now.left_s is None
    clock.s = 6.0
    assert pace.now.left_s == pytest.approx(4.6)
    clock.s = 8.0  # the model is loaded by now: the second burst was faster
    for _ in range(300):
        pace.embedded()
    clock.s = 9.0
    assert pace.now.left_s == pytest.approx(3.0)


def test_files_that_need_not_be_opened_count_as_read() -> None:
    clock = Clock()
    stamps = [Stamp(b"/a/%d.txt" % n, 100, 0) for n in range(10)]
    pace = FilesPace(stamps, clock)
    for stamp in stamps:
        pace.written(stamp)
    assert (pace.now.num_read, pace.now.file, pace.now.done) == (10, 10, 1.0)


def test_things_alike() -> None:
    clock = Clock()
    pace = Pace("linking", 100, clock)
    pace.add()
    clock.s = 1.0
    early = pace.now
    assert early.left_s is None
    for _ in range(24):
        pace.add()
    clock.s = 5.0
    later = pace.now
    assert (later.done, later.left_s) == (0.25, 15.0)
