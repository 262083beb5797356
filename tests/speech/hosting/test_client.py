"""A host in an environment with clashing pins, and every way it can fail."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anyrig.errors import DeviceLostError, InvalidInputError, OutOfMemoryError, WorkError
from anyrig.memory import oom
from anyrig.speech.hosting import client as clients
from anyrig.speech.hosting import environments
from anyrig.speech.hosting.client import Client, Deadlines, Part
from anyrig.speech.protocol import Line
from tests.speech.hosting.standin import QUICK, client

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes of POSIX")


def _takes(parts: list[Part]) -> dict[int, np.ndarray[tuple[int], np.dtype[np.float32]]]:
    data: dict[int, bytes] = {}
    for part in parts:
        data[part.line] = data.get(part.line, b"") + part.data
    return {line: np.frombuffer(held, "<f4") for line, held in sorted(data.items())}


def test_clashing_versions_live_side_by_side(
    home: Path, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the library is 2.0, there 1.0, and no single environment could hold both."""
    here = tmp_path / "here"
    with zipfile.ZipFile(index / "clashlib-2.0-py3-none-any.whl") as wheel:
        wheel.extractall(here)
    monkeypatch.syspath_prepend(str(here))
    monkeypatch.setenv("PYTHONPATH", str(here))  # would lead the host astray, were it heeded
    import clashlib  # type: ignore[import-not-found]

    with client(home) as made:
        made.start()
        assert clashlib.__version__ == "2.0"
        assert made.hello["versions"] == {"standin-tts": "1.0", "clashlib": "1.0"}
        assert made.hello["protocol"] == 1
        assert list(_takes(list(made.speak([Line("hello")])))) == [0]
    both = ["standin-tts", "clashlib==2.0"]
    pip = [str(environments.python_of(home / "standin")), "-m", "pip", "install", "--dry-run"]
    done = subprocess.run(
        [*pip, "--no-index", "--find-links", str(index), *both], capture_output=True, text=True
    )
    assert "ResolutionImpossible" in done.stderr


def test_lines_come_back_as_tones(home: Path) -> None:
    """Voice, rate and seed reach the engine; what it prints does not reach the frames."""
    lines = [
        Line("one", voice="high"), Line("two words", voice="low"),
        Line("one", voice="high", rate=2.0), Line("one", voice="high", seed=40),
    ]  # fmt: skip
    with client(home) as made:
        assert made.voices() == ["low", "high"]
        parts = list(made.speak(lines))
        assert made.ready["rate"] == 16000
        again = _takes(list(made.speak(list(reversed(lines)))))
    takes = _takes(parts)
    assert [len(take) for take in takes.values()] == [4800, 14400, 2400, 4800]
    assert [_pitch(take) for take in takes.values()] == [880, 220, 880, 920]
    assert {part.rate for part in parts} == {16000}
    assert sum(part.last for part in parts) == 4
    for number in range(4):
        np.testing.assert_array_equal(takes[number], again[3 - number])


def _pitch(samples: np.ndarray[tuple[int], np.dtype[np.float32]]) -> int:
    peak = int(np.argmax(np.abs(np.fft.rfft(samples, 16000))))
    return round(peak / 20) * 20


def test_parts_stream_and_whoever_leaves_early_leaves_no_trace(home: Path) -> None:
    with client(home, pause=0.02) as made:
        parts = list(made.stream(Line("hello")))
        assert [len(part.data) // 4 for part in parts] == [1600] * 5 + [0]
        assert parts[-1].last
        listening = made.stream(Line("a text that is long enough"))
        next(listening)
        listening.close()
        assert len(_takes(list(made.speak([Line("hi")])))[0]) == 3200


def test_a_ping_is_answered_while_it_computes(home: Path) -> None:
    with client(home, pause=0.2) as made:
        listening = made.stream(Line("a long line"))
        next(listening)
        assert made._line is not None
        made._line.send({"type": "ping", "id": 0})
        frames = [made._line.receive(5, "waiting") for _ in range(2)]
        assert "speak" in [f.header.get("busy") for f in frames]
        listening.close()
        assert made.ping()["type"] == "pong"


def test_a_host_that_dies_once_is_started_anew(home: Path, tmp_path: Path) -> None:
    lines = [Line("first", voice="a"), Line("die now", voice="b"), Line("last", voice="c")]
    with client(home, marker=str(tmp_path / "died")) as made:
        made.start()
        first = made.pid
        parts = list(made.speak(lines))
        assert made.pid != first
    assert [(part.line, part.last) for part in parts] == [(0, True), (1, True), (2, True)]


def test_a_line_that_kills_every_host_is_blamed(home: Path) -> None:
    with client(home) as made:
        with pytest.raises(WorkError, match="while saying 'die'.*segmentation dreams"):
            list(made.speak([Line("die")]))
        assert made.pid is None
        assert len(_takes(list(made.speak([Line("fine")])))[0]) == 6400


def test_a_stream_that_breaks_is_not_begun_again(home: Path) -> None:
    """What was heard cannot be taken back."""
    with client(home, pause=0.05) as made:
        listening = made.stream(Line("hello there"))
        next(listening)
        assert made.pid is not None
        os.kill(made.pid, signal.SIGTERM)
        with pytest.raises(WorkError):
            list(listening)


def test_a_host_that_hangs_is_ended_at_its_deadline(home: Path) -> None:
    with client(home, deadlines=replace(QUICK, line_s=0.5)) as made:
        made.start()
        first = made.pid
        with pytest.raises(WorkError, match=r"nothing came within 0\.5 s"):
            list(made.speak([Line("hang")]))
        assert made.pid is None
        assert first is not None
        assert not _lives(first)


def test_the_first_line_of_a_host_may_take_longer(home: Path) -> None:
    """Half a second is not enough for the parts of this line; for the first answer it must be."""
    with client(home, deadlines=replace(QUICK, first_s=30, line_s=0.0), pause=0.2) as made:
        listening = made.stream(Line("hello"))
        assert next(listening).data
        with pytest.raises(WorkError, match="nothing came within 0 s"):
            list(listening)


def test_deadlines_grow_with_the_text() -> None:
    deadlines = Deadlines(line_s=10, character_s=0.5)
    assert deadlines.of([Line("a" * 20), Line("b" * 100)]) == 60
    assert deadlines.of([]) == 10


@posix
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("garbage", "no frame begins with b'Loading"),
        ("version", "speaks version 9"),
        ("huge", "too large"),
        ("truncated", "middle of a frame"),
    ],
)
def test_what_is_no_frame_ends_the_host(home: Path, what: str, said: str) -> None:
    with client(home) as made, pytest.raises(WorkError, match=said):
        list(made.speak([Line(f"raw {what}")]))


def test_memory_and_lost_devices_leave_as_ours(home: Path) -> None:
    with client(home) as made:
        with pytest.raises(OutOfMemoryError) as host_memory:
            list(made.speak([Line("memory")]))
        with pytest.raises(OutOfMemoryError) as device_memory:
            list(made.speak([Line("cuda")]))
        first = made.pid
        with pytest.raises(WorkError, match="ValueError: CUDA out of memory"):
            list(made.speak([Line("wrong")]))
        assert made.pid == first
        with pytest.raises(DeviceLostError) as lost:
            list(made.speak([Line("lost")]))
    found = [oom.detect_oom(error.value) for error in (host_memory, device_memory)]
    assert [shortage.location for shortage in found if shortage] == ["host", "device"]
    assert oom.detect_device_loss(lost.value)


def test_a_refused_load_is_said_and_not_tried_again(home: Path) -> None:
    with client(home, load="refuse") as made:
        with pytest.raises(InvalidInputError, match="no such weights"):
            made.start()
        assert made.pid is None


def test_a_host_that_dies_while_loading_fails_after_two(home: Path) -> None:
    with client(home, load="die") as made, pytest.raises(WorkError, match="code 9"):
        made.start()


def test_an_engine_that_is_not_there_is_named(home: Path) -> None:
    python = environments.python_of(home / "standin")
    absent = Client(python, "nothing_tts:Engine", os.environ, deadlines=QUICK)
    with absent, pytest.raises(WorkError, match="No module named 'nothing_tts'"):
        absent.start()
    homeless = Client("/no/such/python", "xtts", os.environ, deadlines=QUICK)
    with homeless, pytest.raises(WorkError, match="does not start"):
        homeless.start()


def test_a_host_left_alone_is_asked_before_it_is_used(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_IDLE_S", 0.0)
    with client(home) as made:
        made.start()
        first = made.pid
        assert first is not None
        list(made.speak([Line("hi")]))
        assert made.pid == first
        os.kill(first, signal.SIGTERM)
        list(made.speak([Line("hi")]))
        assert made.pid != first


def test_the_host_ends_with_its_parent(home: Path, tmp_path: Path) -> None:
    """A parent that is killed says no goodbye; its host is busy and ends all the same."""
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.speech.hosting.standin import client\n"
        "from anyrig.speech.protocol import Line\n"
        f"with client(Path({str(home)!r})) as made:\n"
        "    made.start(); print(made.pid, flush=True)\n"
        "    made._send({'type': 'speak', 'lines': [{'text': 'hang'}]})\n"
        "    time.sleep(60)\n"
    )
    root = Path(__file__).resolve().parents[3]
    path = os.pathsep.join([str(root), str(root / "src")])
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert parent.stdout is not None
    with parent.stdout:
        pid = int(parent.stdout.readline())
        assert _lives(pid)
        parent.kill()
        parent.wait()
    until = time.monotonic() + 20
    while _lives(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    """Whether a process runs; one that nobody has fetched yet does not."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
