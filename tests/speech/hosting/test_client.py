"""A host in an environment with clashing pins, and every way it can fail."""

from __future__ import annotations

import ast
import io
import os
import signal
import struct
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from anyrig.errors import (
    DeviceLostError,
    InvalidInputError,
    OutOfMemoryError,
    UnspeakableTextError,
    WorkError,
)
from anyrig.memory import oom
from anyrig.speech import contract
from anyrig.speech.engine import Utterance
from anyrig.speech.hosting import client as clients
from anyrig.speech.hosting import environments, host
from anyrig.speech.hosting.client import Client, Part
from anyrig.speech.hosting.host import BadFrame, read_frame, write_frame
from anyrig.work.engine import EngineFactory
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers
from tests.conftest import ROOT
from tests.speech.conftest import place_on_cpu
from tests.speech.hosting.standin import QUICK, client
from tests.speech.hosting.standin_engine import Paced, Standin
from tests.waiting import wait_until

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
        assert list(_takes(list(made.speak([Utterance("hello")])))) == [0]
    both = ["standin-tts", "clashlib==2.0"]
    pip = [str(environments.python_of(home / "standin")), "-m", "pip", "install", "--dry-run"]
    done = subprocess.run(
        [*pip, "--no-index", "--find-links", str(index), *both], capture_output=True, text=True
    )
    assert "ResolutionImpossible" in done.stderr


def test_parts_stream_and_whoever_leaves_early_leaves_no_trace(home: Path) -> None:
    with client(home, pause=0.02) as made:
        parts = list(made.stream(Utterance("hello")))
        assert [len(part.data) // 4 for part in parts] == [1600] * 5 + [0]
        assert parts[-1].last
        listening = made.stream(Utterance("a text that is long enough"))
        next(listening)
        listening.close()
        assert len(_takes(list(made.speak([Utterance("hi")])))[0]) == 3200


def test_a_host_that_dies_once_is_started_anew(home: Path, tmp_path: Path) -> None:
    lines = [
        Utterance("first", voice="a"),
        Utterance("die now", voice="b"),
        Utterance("last", voice="c"),
    ]
    with client(home, marker=str(tmp_path / "died")) as made:
        made.start()
        first = made.pid
        parts = list(made.speak(lines))
        assert made.pid != first
    assert [(part.line, part.last) for part in parts] == [(0, True), (1, True), (2, True)]


def test_a_line_that_kills_every_host_is_blamed(home: Path) -> None:
    with client(home) as made:
        with pytest.raises(WorkError, match="while saying 'die'.*segmentation dreams"):
            list(made.speak([Utterance("die")]))
        assert made.pid is None
        assert len(_takes(list(made.speak([Utterance("fine")])))[0]) == 6400


def test_a_stream_that_breaks_is_not_begun_again(home: Path) -> None:
    """What was heard cannot be taken back."""
    with client(home, pause=0.05) as made:
        listening = made.stream(Utterance("hello there"))
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
            list(made.speak([Utterance("hang")]))
        assert made.pid is None
        assert first is not None
        assert not _lives(first)


def test_the_first_line_of_a_host_may_take_longer(home: Path) -> None:
    """Half a second is not enough for the parts of this line; for the first answer it must be."""
    with client(home, deadlines=replace(QUICK, first_s=30, line_s=0.0), pause=0.2) as made:
        listening = made.stream(Utterance("hello"))
        assert next(listening).data
        with pytest.raises(WorkError, match="nothing came within 0 s"):
            list(listening)


@posix
def test_what_is_no_frame_ends_the_host(home: Path) -> None:
    with client(home) as made, pytest.raises(WorkError, match="no frame begins with b'Loading"):
        list(made.speak([Utterance("raw")]))


def test_memory_and_lost_devices_leave_as_ours(home: Path) -> None:
    with client(home) as made:
        with pytest.raises(OutOfMemoryError) as host_memory:
            list(made.speak([Utterance("memory")]))
        with pytest.raises(OutOfMemoryError) as device_memory:
            list(made.speak([Utterance("cuda")]))
        first = made.pid
        with pytest.raises(WorkError, match="ValueError: CUDA out of memory"):
            list(made.speak([Utterance("wrong")]))
        assert made.pid == first
        with pytest.raises(DeviceLostError) as lost:
            list(made.speak([Utterance("lost")]))
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
        list(made.speak([Utterance("hi")]))
        assert made.pid == first
        os.kill(first, signal.SIGTERM)
        list(made.speak([Utterance("hi")]))
        assert made.pid != first


def test_the_host_ends_with_its_parent(home: Path, tmp_path: Path) -> None:
    """A parent that is killed says no goodbye; its host is busy and ends all the same."""
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from tests.speech.hosting.standin import client\n"
        "from anyrig.speech.engine import Utterance\n"
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
    wait_until(lambda: not _lives(pid))


def _lives(pid: int) -> bool:
    """Whether a process runs; one that nobody has fetched yet does not."""
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _sent(header: dict[str, object], payload: bytes = b"") -> bytes:
    pipe = io.BytesIO()
    write_frame(pipe, header, payload)
    return pipe.getvalue()


def test_a_frame_cut_anywhere_is_told_from_an_end() -> None:
    whole = _sent({"type": "audio", "id": 3}, b"12345678")
    for length in range(1, len(whole)):
        with pytest.raises(BadFrame, match="middle"):
            read_frame(io.BytesIO(whole[:length]))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"Downloading: 100%|####|", "no frame begins"),
        (struct.pack(">3sBII", b"ARH", 2, 2, 0) + b"{}", "version 2"),
        (struct.pack(">3sBII", b"ARH", 1, 2, 1 << 31) + b"{}", "too large"),
        (struct.pack(">3sBII", b"ARH", 1, 3, 0) + b"{x}", "not valid JSON"),
        (struct.pack(">3sBII", b"ARH", 1, 2, 0) + b"{}", "no type"),
    ],
)
def test_what_is_no_frame_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(BadFrame, match=said):
        read_frame(io.BytesIO(data))


def test_a_frame_too_large_is_not_sent() -> None:
    pipe = io.BytesIO()
    with pytest.raises(BadFrame):
        write_frame(pipe, {"type": "speak", "text": "a" * host.MAX_HEADER})
    assert pipe.getvalue() == b""


def test_the_host_stands_alone() -> None:
    """Nothing but the standard library on top, in the language of Python 3.9."""
    tree = ast.parse(Path(host.__file__).read_text(encoding="utf-8"), feature_version=(3, 9))
    names = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else
                     [alias.name for alias in node.names])
    }  # fmt: skip
    assert names - set(sys.stdlib_module_names) == set()


@pytest.mark.parametrize(
    ("text", "limit", "pieces"),
    [
        ("one two three four", 9, ["one two", "three", "four"]),
        ("well, that is so", 12, ["well,", "that is so"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
    ],
)
def test_long_texts_are_cut_below_a_limit(text: str, limit: int, pieces: list[str]) -> None:
    assert list(host.cut(text, limit)) == pieces
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")


_subjects: dict[str, contract.Subject] = {}


@pytest.fixture(scope="session")
def folder(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of the stand-in, a recording, and its environment."""
    folder = tmp_path_factory.mktemp("standin")
    (folder / "weights.bin").write_bytes(b"weights")
    (folder / "voices").mkdir()
    (folder / "voices" / "anna.wav").write_bytes(b"RIFF")
    (folder / "environments").symlink_to(home, target_is_directory=True)
    return folder


@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", [Standin, Paced])
def test_the_contract(
    kind: type[Standin],
    check: contract.Check,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    if kind.__name__ not in _subjects:
        _subjects[kind.__name__] = contract.Subject(kind, place_on_cpu(), folder)
    check(_subjects[kind.__name__])


@pytest.fixture
def engine(folder: Path) -> Iterator[Standin]:
    made = Standin(place_on_cpu(), folder=str(folder))
    yield made
    made.close()


def test_it_is_found_with_its_versions_and_voices(folder: Path, home: Path) -> None:
    found = Standin.find_weights(folder)
    assert found.environment == str(folder / "environments" / "standin")
    assert found.version == "1/standin-tts-1.0"
    assert [voice.name for voice in found.voices] == ["low", "high", "anna"]
    assert found.languages == ("en", "es")
    (anna,) = (voice for voice in found.voices if voice.name == "anna")
    (folder / "voices" / "anna.wav").write_bytes(b"RIFFanother")
    assert Standin.find_weights(folder).voices[2].digest != anna.digest
    assert Standin.find_weights(folder).fingerprint == found.fingerprint


def test_a_recording_by_its_path_is_a_voice(engine: Standin, tmp_path: Path) -> None:
    recording = tmp_path / "mine.wav"
    with pytest.raises(InvalidInputError, match="does not exist"):
        engine.run([Utterance("hello", voice=str(recording))])
    recording.touch()
    (take,) = engine.run([Utterance("hello", voice=str(recording))])
    assert take.rate == 16000
    with pytest.raises(UnspeakableTextError, match="does not speak fr"):
        engine.run([Utterance("bonjour", language="fr", voice=str(recording))])


def test_what_was_said_before_a_failure_is_not_said_again(engine: Standin) -> None:
    """Lines go by voice: those of `high` are done when the one of `low` fails."""
    good = [Utterance("good", voice="high"), Utterance("also good", voice="high")]
    with pytest.raises(OutOfMemoryError):
        engine.run([good[0], Utterance("cuda", voice="low"), good[1]])
    kept = dict(engine._kept)
    assert list(kept) == good
    takes = engine.run([good[1], Utterance("new", voice="low")])
    assert takes[0] is kept[good[1]]
    assert engine._kept == {}


def test_a_rate_that_the_engine_lacks_is_made_here(engine: Standin, folder: Path) -> None:
    """Half as long at the same pitch; the engine that has a rate is left to itself."""
    line = Utterance("a somewhat longer text", voice="low", rate=2.0)
    ours, theirs = engine.run([line])[0], Paced(place_on_cpu(), folder=str(folder)).run([line])[0]
    assert len(ours.samples) == len(theirs.samples) == 17600
    for take in (ours, theirs):
        spectrum = np.abs(np.fft.rfft(take.samples, 16000))
        assert abs(int(np.argmax(spectrum)) - 220) <= 4


def test_workers_split_restart_and_blame(folder: Path) -> None:
    """Through a pool: the line that kills and the one that fails are set aside, no other."""
    lines = [Utterance(f"text {n}", voice="high") for n in range(5)]
    lines[1:1] = [Utterance("die always", voice="low")]
    lines[4:4] = [Utterance("wrong always", voice="low")]
    recipe = EngineFactory(f"{Standin.__module__}:Standin", {"folder": str(folder)})
    with WorkerPool(LocalWorkers([place_on_cpu()], recipe, environment=os.environ)) as pool:
        got = list(pool.run(lines, cost=lambda line: line.cost))
    assert [number for number, outcome in enumerate(got) if outcome.failure] == [1, 4]
    assert got[1].failure is not None
    assert "exited with code 7" in got[1].failure.message
    assert got[4].failure is not None
    assert "ValueError" in got[4].failure.message
    assert [len(outcome.result.samples) for outcome in got if outcome.result] == [9600] * 5
