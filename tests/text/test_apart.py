"""The process that files are read in: it may be killed, stopped or left, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from anyrig.errors import LimitExceededError
from anyrig.text import apart as apart_module
from anyrig.text.apart import Apart
from anyrig.text.formats.limits import Limits
from tests.text.formats.pdf_making import write
from tests.text.formats.test_pdf import leaf
from tests.text.picture_making import squares, tiff

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text("some words")
    return path


def _pid(apart: Apart) -> int:
    assert apart._child is not None
    return apart._child._process.pid


def test_one_process_reads_many_files(text: Path) -> None:
    with Apart() as apart:
        apart.read(text)
        first = _pid(apart)
        for _ in range(20):
            assert apart.read(text).text == "some words"
        assert _pid(apart) == first
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_a_process_that_was_killed_costs_no_file(text: Path, tmp_path: Path) -> None:
    scans = tiff(tmp_path / "a.tif", [1, 2])
    with Apart() as apart:
        apart.read(text)
        os.kill(_pid(apart), signal.SIGKILL)
        assert apart.read(text).text == "some words"
        os.kill(_pid(apart), signal.SIGKILL)
        assert [squares(each.data) for each in apart.render(scans, [1, 2])] == [1, 2]


def test_a_reader_that_hangs_is_ended_at_the_limit(text: Path, tmp_path: Path) -> None:
    scans = tiff(tmp_path / "a.tif", [1, 2])
    with Apart(Limits(seconds=4)) as apart:  # the start of a process counts too
        apart.read(text)
        os.kill(_pid(apart), signal.SIGSTOP)
        with pytest.raises(LimitExceededError, match="longer than 4 seconds") as caught:
            apart.read(text)
        assert caught.value.limit == "seconds"
        assert apart.read(text).text == "some words"
        os.kill(_pid(apart), signal.SIGSTOP)
        drawn = list(apart.render(scans, [1, 2]))
        assert [each.number for each in drawn] == [1, 2]
        assert all("longer than" in each.error and not each.data for each in drawn)


def test_a_page_that_hangs_costs_that_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart_module, "_DRAWN_S", 3.0)
    scans = tiff(tmp_path / "a.tif", [1, 2, 3, 4, 5, 1, 2, 3, 4, 5])
    with Apart() as apart:
        drawn = apart.render(scans, range(1, 11))
        got = [next(drawn)]
        os.kill(_pid(apart), signal.SIGSTOP)
        got += drawn
    assert [each.number for each in got] == list(range(1, 11))
    lost = [each for each in got if not each.data]
    assert len(lost) <= 1  # none, where all were drawn before it was stopped
    assert all("takes too long" in each.error for each in lost)
    assert squares(got[-1].data) == 5


def test_pictures_that_nobody_takes_do_not_stay(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pdf", [leaf()] * 30)
    with Apart() as apart:
        for drawn in apart.render(path, range(1, 31), dpi=72):
            assert drawn.data
            break
        assert len(apart.read(path).parts("page")) == 30


def test_answers_that_were_left_are_not_those_of_the_next_file(text: Path, tmp_path: Path) -> None:
    scans, others = tiff(tmp_path / "a.tif", [1, 2, 3]), tiff(tmp_path / "b.tif", [4, 5])
    with Apart() as apart:
        left = apart.render(scans, [1, 2, 3])
        assert squares(next(left).data) == 1
        more = apart.render(others, [1, 2])
        assert squares(next(more).data) == 4
        left.close()  # type: ignore[attr-defined]  # it is a generator
        assert squares(next(more).data) == 5
        assert apart.read(text).text == "some words"


def test_the_time_of_whoever_takes_pictures_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, slept_s = write(tmp_path / "a.pdf", [leaf()] * 8), 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + slept_s)
    monkeypatch.setattr(apart_module, "time", clock)
    with Apart(Limits(seconds=60)) as apart:
        got = []
        for drawn in apart.render(path, range(1, 9), dpi=36):
            slept_s += 100
            got.append(bool(drawn.data))
    assert got == [True] * 8


def test_ctrl_c_is_for_whoever_asked(text: Path) -> None:
    with Apart() as apart:
        apart.read(text)
        before = _pid(apart)
        os.kill(before, signal.SIGINT)
        assert apart.read(text).text == "some words"
        assert _pid(apart) == before


def test_it_ends_with_the_process_that_asked(text: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from anyrig.text.apart import Apart;"
        "apart = Apart(); apart.read(Path(sys.argv[1]));"
        "print(apart._child._process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    told = subprocess.run([sys.executable, "-c", code, str(text)], capture_output=True, text=True)
    child = int(told.stdout)
    for _ in range(200):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("the process that reads outlived the one that asked")
