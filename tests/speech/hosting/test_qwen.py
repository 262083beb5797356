"""Qwen3-TTS in the environment that its recipe makes, on tiny random models.

The environment takes minutes and gigabytes: HOSTED_ENVIRONMENTS names a folder to keep it in.
"""

from __future__ import annotations

import os
import subprocess
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyrig.devices.discover import discover
from anyrig.placement import Placement
from anyrig.speech.engines.hosted import QwenTts
from anyrig.speech.hosting import environments
from anyrig.speech.protocol import Line, options_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def qwen_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("HOSTED_ENVIRONMENTS")
    home = Path(kept) if kept else tmp_path_factory.mktemp("environments")
    environments.install(
        "qwen-tts", home, yes=lambda notice: False, tell=lambda line: None, environment=os.environ
    )
    return home


def _built(home: Path, folder: Path, kind: str) -> Path:
    script = Path(__file__).with_name("build_qwen.py")
    python = environments.python_of(home / "qwen-tts")
    done = subprocess.run([python, "-I", script, folder, kind], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def _loaded(folder: Path, home: Path, **given: object) -> QwenTts:
    device = discover().cpu_device
    backend = next(backend for backend in device.backends if backend.library == "onnx")
    found = QwenTts.find(folder, environments=home)
    options: dict[str, Any] = options_of(QwenTts.spec, given)
    place = Placement(device, backend)
    return QwenTts(place, folder=found.folder, environment=found.environment, **options)


def test_its_own_speakers(qwen_home: Path, tmp_path: Path) -> None:
    """Each line the same alone as in company while the batch is one."""
    engine = _loaded(_built(qwen_home, tmp_path, "custom_voice"), qwen_home)
    lines = [
        Line("Hello there.", voice="ryan", seed=3), Line("Good day.", seed=4),
        Line("Hola.", "es", voice="vivian", seed=5),
    ]  # fmt: skip
    takes = engine.run(lines)
    for line, take in zip(lines, takes, strict=True):
        assert take.rate == 24000
        assert len(take.samples) > 1920
        assert np.isfinite(take.samples).all()
        np.testing.assert_array_equal(engine.run([line])[0].samples, take.samples)
    engine.close()


def test_a_recording(qwen_home: Path, tmp_path: Path) -> None:
    folder = _built(qwen_home, tmp_path, "base")
    (folder / "voices").mkdir()
    time = np.arange(3 * 24000) / 24000
    buzz = 6000 * sum(np.sin(2 * np.pi * 140 * k * time) / k for k in range(1, 20))
    with wave.open(str(folder / "voices" / "ours.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(24000)
        file.writeframes(np.asarray(buzz, "<i2").tobytes())
    engine = _loaded(folder, qwen_home, batch=2)
    assert not engine.batch_invariant
    takes = engine.run([Line("Hello there.", seed=3), Line("Good day.", seed=4)])
    assert all(len(take.samples) > 1920 for take in takes)
    engine.close()
