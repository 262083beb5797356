"""An engine in another environment is an engine like any other: contract, workers, blame."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from anyrig.devices.discover import discover
from anyrig.errors import (
    InvalidInputError,
    MissingPackageError,
    MissingWeightsError,
    OutOfMemoryError,
    UnspeakableTextError,
)
from anyrig.placement import Placement
from anyrig.speech import contract
from anyrig.speech.protocol import Line
from anyrig.work.engine import EngineFactory
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers
from tests.conftest import ROOT
from tests.speech.hosting.standin_engine import Paced, Standin

_subjects: dict[str, contract.Subject] = {}


def _cpu() -> Placement:
    device = discover().cpu_device
    return Placement(
        device, next(backend for backend in device.backends if backend.library == "onnx")
    )


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
        _subjects[kind.__name__] = contract.Subject(kind, _cpu(), folder)
    check(_subjects[kind.__name__])


@pytest.fixture
def engine(folder: Path) -> Iterator[Standin]:
    made = Standin(_cpu(), folder=str(folder))
    yield made
    made.close()


def test_it_is_found_with_its_versions_and_voices(folder: Path, home: Path) -> None:
    found = Standin.find(folder)
    assert found.environment == str(folder / "environments" / "standin")
    assert found.version == "1/standin-tts-1.0"
    assert [voice.name for voice in found.voices] == ["low", "high", "anna"]
    assert found.languages == ("en", "es")
    (anna,) = (voice for voice in found.voices if voice.name == "anna")
    (folder / "voices" / "anna.wav").write_bytes(b"RIFFanother")
    assert Standin.find(folder).voices[2].digest != anna.digest
    assert Standin.find(folder).fingerprint == found.fingerprint


def test_what_is_missing_is_told_in_the_order_it_is_needed(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingPackageError, match="no environment yet") as absent:
        Standin.find(tmp_path)
    assert absent.value.hint == "anyrig engines install standin"
    (tmp_path / "environments" / "standin").mkdir(parents=True)
    with pytest.raises(MissingPackageError, match="half made"):
        Standin.find(tmp_path)
    with pytest.raises(MissingWeightsError, match=r"not found in .*weights\.bin") as needs:
        Standin.find(tmp_path, environments=folder / "environments")
    assert needs.value.hint.startswith("Make them.")
    with pytest.raises(MissingWeightsError):
        Standin.find(None, environments=folder / "environments")


def test_a_recording_by_its_path_is_a_voice(engine: Standin, tmp_path: Path) -> None:
    recording = tmp_path / "mine.wav"
    with pytest.raises(InvalidInputError, match="no recording"):
        engine.run([Line("hello", voice=str(recording))])
    recording.touch()
    (take,) = engine.run([Line("hello", voice=str(recording))])
    assert take.rate == 16000
    with pytest.raises(UnspeakableTextError, match="does not speak fr"):
        engine.run([Line("bonjour", language="fr", voice=str(recording))])


def test_what_was_said_before_a_failure_is_not_said_again(engine: Standin) -> None:
    """Lines go by voice: those of `high` are done when the one of `low` fails."""
    good = [Line("good", voice="high"), Line("also good", voice="high")]
    with pytest.raises(OutOfMemoryError):
        engine.run([good[0], Line("cuda", voice="low"), good[1]])
    kept = dict(engine._kept)
    assert list(kept) == good
    takes = engine.run([good[1], Line("new", voice="low")])
    assert takes[0] is kept[good[1]]
    assert engine._kept == {}


def test_a_rate_that_the_engine_lacks_is_made_here(engine: Standin, folder: Path) -> None:
    """Half as long at the same pitch; the engine that has a rate is left to itself."""
    line = Line("a somewhat longer text", voice="low", rate=2.0)
    ours, theirs = engine.run([line])[0], Paced(_cpu(), folder=str(folder)).run([line])[0]
    assert len(ours.samples) == len(theirs.samples) == 17600
    for take in (ours, theirs):
        spectrum = np.abs(np.fft.rfft(take.samples, 16000))
        assert abs(int(np.argmax(spectrum)) - 220) <= 4


def test_workers_split_restart_and_blame(folder: Path) -> None:
    """Through a pool: the line that kills and the one that fails are set aside, no other."""
    lines = [Line(f"text {n}", voice="high") for n in range(5)]
    lines[1:1] = [Line("die always", voice="low")]
    lines[4:4] = [Line("wrong always", voice="low")]
    recipe = EngineFactory(f"{Standin.__module__}:Standin", {"folder": str(folder)})
    with WorkerPool(LocalWorkers([_cpu()], recipe, environment=os.environ)) as pool:
        got = list(pool.run(lines, cost=lambda line: line.cost))
    assert [outcome.failure is None for outcome in got] == [
        True,
        False,
        True,
        True,
        False,
        True,
        True,
    ]
    assert got[1].failure is not None
    assert "exited with code 7" in got[1].failure.message
    assert got[4].failure is not None
    assert "ValueError" in got[4].failure.message
    assert [len(outcome.result.samples) for outcome in got if outcome.result] == [9600] * 5
