"""IndexTTS 2.5 in the environment that it asks for, on a small random checkpoint.

Random weights speak no words, so what is shown is that every option reaches the sound, and that
the length follows the options that set it. The environment takes minutes and gigabytes:
ENGINE_ENVIRONMENTS names a folder to keep it in.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from anyrig.errors import MissingWeightsError
from anyrig.speech import engines
from anyrig.speech.choose import WeightsCache
from anyrig.speech.engine import SpeechEngine, Take, Utterance
from anyrig.speech.engines.indextts import IndexTts
from anyrig.speech.environments import Environment
from anyrig.speech.takes import decode_take
from anyrig.work.engine import EngineFactory
from anyrig.work.outcome import RunReport
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers
from tests.server.conftest import HERE, MakeApp, make_app  # noqa: F401 - a fixture
from tests.speech.conftest import place_on_cpu
from tests.speech.engines.tight_indextts import TightIndexTts

pytestmark = pytest.mark.slow
UTTERANCE = Utterance("hello there, and again.", voice="low", seed=3)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("ENGINE_ENVIRONMENTS")
    home = Path(kept) if kept else tmp_path_factory.mktemp("environments")
    Environment("indextts", IndexTts.environment, home).install(
        agree=lambda notice: "bilibili" in notice, on_line=lambda line: None, variables=os.environ
    )
    return home


@pytest.fixture(scope="module")
def folder(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint and two recordings."""
    folder = tmp_path_factory.mktemp("indextts")
    python = Environment("indextts", IndexTts.environment, home).python
    script = Path(__file__).with_name("build_indextts.py")
    done = subprocess.run([python, "-I", script, folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (folder / "voices").mkdir()
    _write_buzz(folder / "voices" / "low.wav", 110)
    _write_buzz(folder / "voices" / "high.wav", 230)
    return folder


def _write_buzz(path: Path, pitch: float) -> None:
    time = np.arange(3 * 24000) / 24000
    buzz = sum(np.sin(2 * np.pi * pitch * k * time) / k for k in range(1, 20))
    loud = 6000 * buzz * (1 + np.sin(2 * np.pi * 3 * time))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(24000)
        file.writeframes(loud.astype("<i2").tobytes())


def _open_pool(
    folder: Path, home: Path, engine: type[SpeechEngine] = IndexTts, **options: object
) -> WorkerPool:
    weights = WeightsCache().find(engine, folder, home)
    factory = EngineFactory(
        "anyrig.speech.quality:CheckedEngine",
        {
            "engine": engines.describe_engine(engine, "indextts"),
            "folder": weights.folder,
            # Short, and one beam: random weights rarely end by themselves.
            "options": {"max_mel_tokens": 40, "num_beams": 1, **options},
        },
        interpreter=weights.interpreter,
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    return WorkerPool(LocalWorkers([place_on_cpu()], factory, environment=environment))


def _speak(pool: WorkerPool, *batch: Utterance) -> list[Take]:
    outcomes = list(pool.run(batch, cost=lambda one: one.cost))
    assert [outcome.failure for outcome in outcomes] == [None] * len(batch)
    return [decode_take(outcome.result.data) for outcome in outcomes if outcome.result]


@pytest.fixture(scope="module")
def pool(folder: Path, home: Path) -> Iterator[WorkerPool]:
    with _open_pool(folder, home) as pool:
        yield pool


@pytest.fixture(scope="module")
def plain(pool: WorkerPool) -> Take:
    return _speak(pool, UTTERANCE)[0]


def test_a_batch_of_voices_seeds_and_languages(pool: WorkerPool, plain: Take) -> None:
    batch = [
        UTTERANCE,
        Utterance(UTTERANCE.text, voice="high", seed=3),
        Utterance(UTTERANCE.text, voice="low", seed=4),
        Utterance("hola, adiós.", "es", voice="low", seed=3),
    ]
    takes = _speak(pool, *batch)
    for take in takes:
        assert take.rate == 22050
        assert len(take.samples) > 2000
        assert np.isfinite(take.samples).all()
    assert np.array_equal(takes[0].samples, plain.samples)
    for other in takes[1:]:
        assert not np.array_equal(other.samples, plain.samples)


@pytest.mark.parametrize(
    "options",
    [
        {"emo_audio_prompt": "high"},
        {"emo_vector": "0,0,0.7,0,0,0,0,0"},
        {"emo_audio_prompt": "high", "emo_alpha": 0.3},
        {"temperature": 1.6},
        {"top_k": 2},
        {"num_beams": 2},
    ],
)
def test_every_option_changes_the_sound(
    options: dict[str, Any], folder: Path, home: Path, plain: Take
) -> None:
    with _open_pool(folder, home, **options) as pool:
        (take,) = _speak(pool, UTTERANCE)
    assert not np.array_equal(take.samples, plain.samples)


def test_duration_and_limits_set_the_length(folder: Path, home: Path, plain: Take) -> None:
    with _open_pool(folder, home, duration=1.5) as pool:
        longer, stretched = _speak(
            pool, UTTERANCE, Utterance(UTTERANCE.text, voice="low", seed=3, rate=1.5)
        )
    assert len(longer.samples) == pytest.approx(1.5 * len(plain.samples), rel=0.05)
    assert len(stretched.samples) == pytest.approx(len(plain.samples), rel=0.05)
    with _open_pool(folder, home, max_mel_tokens=20) as pool:
        (shorter,) = _speak(pool, UTTERANCE)
    # 25 tokens a second.
    assert len(shorter.samples) <= 1.05 * 20 / 25 * 22050
    assert len(plain.samples) > len(shorter.samples)
    long = Utterance("one and two and three and four and five and six and seven.", voice="low")
    with _open_pool(folder, home, max_text_tokens_per_sentence=20) as pool:
        (split,) = _speak(pool, long)
    # Each sentence has its own limit.
    assert len(split.samples) > 1.5 * 40 / 25 * 22050


def test_files_that_do_not_fit_are_named_before_anything_loads(
    folder: Path, home: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    config = (broken / "config.yaml").read_text()
    (broken / "config.yaml").write_text(config.replace("model_dim: 64", "model_dim: 96"))
    with pytest.raises(Exception, match=r"gpt\.pth does not fit config\.yaml: text_embedding"):
        _speak(_open_pool(broken, home), UTTERANCE)
    (broken / "config.yaml").write_text(config)
    (broken / "codec.pth").write_bytes((folder / "codec.pth").read_bytes()[:5000])
    with pytest.raises(Exception, match=r"codec\.pth cannot be read"):
        _speak(_open_pool(broken, home), UTTERANCE)
    (broken / "hf_cache" / "bigvgan" / "config.json").unlink()
    with pytest.raises(MissingWeightsError, match="bigvgan/config"):
        WeightsCache().find(IndexTts, broken, home)


def test_memory_that_runs_out_loses_no_utterance(
    pool: WorkerPool, folder: Path, home: Path
) -> None:
    batch = [UTTERANCE, Utterance("one more line.", voice="low", seed=5)]
    plain, report = _speak(pool, *batch), RunReport()
    with _open_pool(folder, home, TightIndexTts) as tight:
        outcomes = list(tight.run(batch, cost=lambda one: one.cost, report=report))
    assert report.num_out_of_memory == 2
    assert [outcome.failure for outcome in outcomes] == [None] * len(batch)
    for outcome, take in zip(sorted(outcomes, key=lambda one: one.index), plain, strict=True):
        assert outcome.result is not None
        np.testing.assert_array_equal(decode_take(outcome.result.data).samples, take.samples)


# -- from the commands and over HTTP ---------------------------------------------------------------


@pytest.fixture
def person(folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a person who installed the engine and its weights."""
    cache = tmp_path / "home" / ".cache" / "anyrig"
    (cache / "models").mkdir(parents=True)
    (cache / "models" / "indextts").symlink_to(folder)
    (cache / "environments").symlink_to(home)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return cache


@pytest.mark.usefixtures("person")
def test_requests_over_http(make_app: MakeApp) -> None:  # noqa: F811
    """Without a cache, so that the same audio is made twice."""
    with TestClient(make_app("--no-cache"), base_url=HERE) as client:

        def speak(voice: str = "low", seed: int = 3, **options: object) -> bytes:
            body = {
                "model": "indextts", "voice": voice, "input": UTTERANCE.text, "seed": seed,
                "language": "en", "response_format": "pcm",
                "options": {"max_mel_tokens": 40, "num_beams": 1, **options},
            }  # fmt: skip
            answer = client.post("/v1/audio/speech", json=body)
            assert answer.status_code == 200, answer.text
            return answer.content

        plain = speak()
        assert len(plain) > 2 * 24000 * 0.2
        assert speak() == plain
        sad = speak(emo_vector="0,0,0.7,0,0,0,0,0", duration=1.5)
        like_high = speak(emo_audio_prompt="high", duration=1.5)
        assert len({plain, speak("high"), speak(seed=4), sad, like_high}) == 5
        assert len(sad) > 1.3 * len(plain)
