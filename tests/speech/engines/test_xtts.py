"""XTTS of coqui-tts, in the environment that it asks for, on a tiny random checkpoint.

The environment takes minutes and gigabytes: ENGINE_ENVIRONMENTS names a folder to keep it in.
"""

from __future__ import annotations

import os
import subprocess
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from anyrig.speech import engines
from anyrig.speech.choose import WeightsCache
from anyrig.speech.engine import Take, Utterance
from anyrig.speech.engines.xtts import Xtts
from anyrig.speech.environments import Environment
from anyrig.speech.takes import decode_take
from anyrig.work.engine import EngineFactory
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers
from tests.speech.conftest import place_on_cpu

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of environments with that of XTTS."""
    kept = os.environ.get("ENGINE_ENVIRONMENTS")
    home = Path(kept) if kept else tmp_path_factory.mktemp("environments")
    Environment("xtts", Xtts.environment, home).install(
        agree=lambda notice: "Coqui" in notice, on_line=lambda line: None, variables=os.environ
    )
    return home


@pytest.fixture(scope="module")
def folder(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, its pickled speakers, and a recording."""
    folder = tmp_path_factory.mktemp("xtts")
    python = Environment("xtts", Xtts.environment, home).python
    script = Path(__file__).with_name("build_xtts.py")
    done = subprocess.run([python, "-I", script, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder / "voices").mkdir()
    time = np.arange(3 * 24000) / 24000
    buzz = sum(np.sin(2 * np.pi * 140 * k * time) / k for k in range(1, 20))
    loud = 6000 * buzz * (1 + np.sin(2 * np.pi * 3 * time))
    with wave.open(str(folder / "voices" / "ours.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(24000)
        file.writeframes(loud.astype("<i2").tobytes())
    return folder


def _open_pool(folder: Path, home: Path, **options: object) -> WorkerPool:
    weights = WeightsCache().find(Xtts, folder, home)
    engine = engines.describe_engine(Xtts, "xtts")
    factory = EngineFactory(
        "anyrig.speech.quality:CheckedEngine",
        {"engine": engine, "folder": weights.folder, "options": options},
        interpreter=weights.interpreter,
    )
    return WorkerPool(LocalWorkers([place_on_cpu()], factory, environment=os.environ))


@pytest.fixture(scope="module")
def pool(folder: Path, home: Path) -> Iterator[WorkerPool]:
    with _open_pool(folder, home) as pool:
        yield pool


def _speak(pool: WorkerPool, *batch: Utterance) -> list[Take]:
    outcomes = list(pool.run(batch, cost=lambda one: one.cost))
    assert [outcome.failure for outcome in outcomes] == [None] * len(batch)
    return [decode_take(outcome.result.data) for outcome in outcomes if outcome.result]


def test_utterances_of_several_voices_in_one_batch(pool: WorkerPool) -> None:
    """In order, at its rate, the same alone as in a batch; another seed is another take."""
    batch = [
        Utterance("hello there.", voice="ours", seed=3),
        Utterance("and again.", voice="Viktor Eka", seed=4),
        Utterance("hola.", "es", voice="ours", seed=5),
        Utterance("hello there.", voice="ours", seed=9),
    ]
    takes = _speak(pool, *batch)
    for take in takes:
        assert take.rate == 24000
        assert len(take.samples) > 2000
        assert np.isfinite(take.samples).all()
    assert not np.array_equal(takes[0].samples, takes[3].samples)
    for utterance, take in zip(batch, takes, strict=True):
        np.testing.assert_array_equal(_speak(pool, utterance)[0].samples, take.samples)


def test_it_speaks_with_the_option_stream(folder: Path, home: Path) -> None:
    with _open_pool(folder, home, stream=True) as pool:
        (take,) = _speak(pool, Utterance("hello there.", voice="Ana Florence", seed=2))
    assert len(take.samples) > 2000
