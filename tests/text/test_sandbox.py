"""The processes that read files: they may be killed, stopped or left, and nothing is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from anyrig.errors import InvalidInputError, LimitExceededError
from anyrig.text import sandbox
from anyrig.text.document import Document
from anyrig.text.formats.limits import Limits
from anyrig.text.sandbox import ReaderPool, ReadError, read_book
from tests.conftest import ROOT
from tests.text.formats.pdf_making import write
from tests.text.formats.test_pdf import TEXT, leaf
from tests.text.picture_making import squares, tiff
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")


@pytest.fixture(autouse=True)
def _tests_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "a.txt"
    path.write_text("some words")
    return path


def _pid(pool: ReaderPool) -> int:
    (worker,) = pool._idle
    return worker.pid


def test_one_process_reads_many_files(text: Path) -> None:
    with ReaderPool() as pool:
        pool.read_file(text)
        first = _pid(pool)
        for _ in range(20):
            assert pool.read_file(text).text == "some words"
        assert _pid(pool) == first
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_files_are_read_ahead_in_order_and_one_that_fails_stops_none(tmp_path: Path) -> None:
    paths = []
    for number in range(12):
        paths.append(tmp_path / f"{number}.txt")
        paths[-1].write_text(f"words {number}" if number != 5 else "")
    with ReaderPool(3) as pool:
        found = list(pool.read(iter(paths)))
    assert [one.path for one in found] == paths
    error = found.pop(5)
    assert isinstance(error, ReadError)
    assert "is empty" in error.error.message
    assert all(isinstance(one, Document) and one.text.startswith("words") for one in found)


def test_a_function_is_applied_where_a_file_is_read(text: Path, tmp_path: Path) -> None:
    with ReaderPool() as pool:
        (found,) = pool.apply("tests.text.sandbox_functions:count_words", [text], least=5)
        assert found == ["words"]
        (missing,) = pool.apply("tests.text.sandbox_functions:count_words", [tmp_path / "none.txt"])
    assert isinstance(missing, ReadError)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("crash", "cannot be read: it is damaged"), ("fill_memory", "more than 1 GB of memory"),
        ("loop", "longer than 1 seconds"),
    ],
)  # fmt: skip
def test_a_file_that_ends_its_process_is_one_error(text: Path, function: str, message: str) -> None:
    limits = Limits(seconds=1 if function == "loop" else 60)
    with ReaderPool(limits=limits) as pool:
        (found,) = pool.apply(f"tests.text.sandbox_functions:{function}", [text])
        assert isinstance(found, ReadError)
        assert message in found.error.message
        assert found.error.hint
        assert pool.read_file(text).text == "some words"


def test_a_process_that_was_killed_costs_no_file(text: Path, tmp_path: Path) -> None:
    scans = tiff(tmp_path / "a.tif", [1, 2])
    with ReaderPool() as pool:
        pool.read_file(text)
        os.kill(_pid(pool), signal.SIGKILL)
        assert pool.read_file(text).text == "some words"
        os.kill(_pid(pool), signal.SIGKILL)
        assert [squares(each.data) for each in pool.render(scans, [1, 2])] == [1, 2]


def test_a_reader_that_waits_is_ended_at_the_limit(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_WALL_FACTOR", 0.5)
    scans = tiff(tmp_path / "a.tif", [1, 2])
    with ReaderPool(limits=Limits(seconds=4)) as pool:
        pool.read_file(text)
        os.kill(_pid(pool), signal.SIGSTOP)
        with pytest.raises(LimitExceededError, match="longer than 4 seconds") as caught:
            pool.read_file(text)
        assert caught.value.limit == "seconds"
        assert pool.read_file(text).text == "some words"
        os.kill(_pid(pool), signal.SIGSTOP)
        drawn = list(pool.render(scans, [1, 2]))
        assert [each.number for each in drawn] == [1, 2]
        assert all("longer than" in each.error and not each.data for each in drawn)


def test_a_page_that_hangs_costs_that_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_PAGE_WALL_S", 3.0)
    scans = tiff(tmp_path / "a.tif", [1, 2, 3, 4, 5, 1, 2, 3, 4, 5])
    with ReaderPool() as pool:
        drawn = pool.render(scans, range(1, 11))
        got = [next(drawn)]
        (worker,) = pool._busy
        os.kill(worker.pid, signal.SIGSTOP)
        got += drawn
    assert [each.number for each in got] == list(range(1, 11))
    lost = [each for each in got if not each.data]
    assert len(lost) <= 1  # none, where all were drawn before it was stopped
    assert all("takes too long" in each.error for each in lost)
    assert squares(got[-1].data) == 5


@pytest.mark.slow
def test_what_follows_the_last_of_many_pages_has_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All pages are laid out together: on a busy machine that takes longer than one page may."""
    monkeypatch.setattr(sandbox, "_PAGE_WALL_S", 15.0)
    path = write(tmp_path / "a.pdf", [leaf()] * 480)
    with ReaderPool() as pool:
        assert list(pool.apply("tests.text.sandbox_functions:wait", [path], seconds=20.0)) == [480]


def test_pictures_that_nobody_takes_do_not_stay(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pdf", [leaf()] * 30)
    with ReaderPool() as pool:
        for drawn in pool.render(path, range(1, 31), dpi=72):
            assert drawn.data
            break
        assert len(pool.read_file(path).parts("page")) == 30


def test_pages_of_two_files_are_drawn_in_turns(text: Path, tmp_path: Path) -> None:
    scans, others = tiff(tmp_path / "a.tif", [1, 2, 3]), tiff(tmp_path / "b.tif", [4, 5])
    with ReaderPool() as pool:
        left = pool.render(scans, [1, 2, 3])
        assert squares(next(left).data) == 1
        more = pool.render(others, [1, 2])
        assert squares(next(more).data) == 4
        left.close()  # type: ignore[attr-defined]  # it is a generator
        assert squares(next(more).data) == 5
        assert pool.read_file(text).text == "some words"


def test_the_time_of_whoever_takes_pictures_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, slept_s = write(tmp_path / "a.pdf", [leaf()] * 8), 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + slept_s)
    monkeypatch.setattr(sandbox, "time", clock)
    with ReaderPool(limits=Limits(seconds=15)) as pool:
        got = []
        for drawn in pool.render(path, range(1, 9), dpi=36):
            slept_s += 100
            got.append(bool(drawn.data))
    assert got == [True] * 8


def test_ctrl_c_is_for_whoever_asked(text: Path) -> None:
    with ReaderPool() as pool:
        pool.read_file(text)
        before = _pid(pool)
        os.kill(before, signal.SIGINT)
        assert pool.read_file(text).text == "some words"
        assert _pid(pool) == before


def test_a_book_has_its_cover_and_a_missing_file_is_one_error(tmp_path: Path) -> None:
    book = read_book(write(tmp_path / "a.pdf", [leaf()]))
    assert book.chapters[0].blocks[0].text == TEXT
    assert book.cover is not None
    assert book.cover.data.startswith(b"\xff\xd8")
    with pytest.raises(InvalidInputError, match="No such file"):
        read_book(tmp_path / "none.pdf")


def test_it_ends_with_the_process_that_asked(text: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path;"
        "from anyrig.text.sandbox import ReaderPool;"
        "pool = ReaderPool(); pool.read_file(Path(sys.argv[1]));"
        "print(pool._idle[0].pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    told = subprocess.run([sys.executable, "-c", code, str(text)], capture_output=True, text=True)
    child = int(told.stdout)

    def has_ended() -> bool:
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return True
        stat = Path(f"/proc/{child}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "Z"

    wait_until(has_ended)
