"""IndexTTS in the environments that it asks for, on small random checkpoints.

Random weights speak no words, so what is shown is that every option reaches the sound, and that
the length follows the options that set it. The environments take minutes and gigabytes:
ENGINE_ENVIRONMENTS names a folder to keep them in.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import wave
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from anyrig.audio.decode import open_audio
from anyrig.errors import MissingWeightsError
from anyrig.speech import engines
from anyrig.speech.choose import WeightsCache
from anyrig.speech.engine import SpeechEngine, Take, Utterance
from anyrig.speech.engines.indextts import IndexTts, IndexTts2
from anyrig.speech.environments import Environment
from anyrig.speech.takes import decode_take
from anyrig.work.engine import EngineFactory
from anyrig.work.outcome import RunReport
from anyrig.work.pool import WorkerPool
from anyrig.work.worker import LocalWorkers
from tests.conftest import Anyrig
from tests.server.conftest import HERE, MakeApp, make_app  # noqa: F401 - a fixture
from tests.speech.conftest import place_on_cpu
from tests.speech.engines.tight_indextts import TightIndexTts, TightIndexTts2

pytestmark = pytest.mark.slow
UTTERANCE = Utterance("hello there, and again.", voice="low", seed=3)
SHORT: dict[str, Any] = {"max_mel_tokens": 40, "num_beams": 1}
"""Random weights rarely end by themselves."""


@dataclass(frozen=True)
class Installed:
    """A version in its environment, with a checkpoint and two recordings."""

    engine: type[SpeechEngine]
    tight: type[SpeechEngine]
    home: Path
    folder: Path
    variables: dict[str, str]
    tokens_per_second: int

    def open_pool(
        self, *, engine: type[SpeechEngine] | None = None, workers: int = 1, **options: Any
    ) -> WorkerPool:
        engine = engine or self.engine
        weights = WeightsCache().find(engine, self.folder, self.home)
        factory = EngineFactory(
            "anyrig.speech.quality:CheckedEngine",
            {
                "engine": engines.describe_engine(engine, self.engine.name),
                "folder": weights.folder,
                "options": SHORT | options,
            },
            interpreter=weights.interpreter,
        )
        environment = {**os.environ, **self.variables}
        placements = [place_on_cpu() for _ in range(workers)]
        return WorkerPool(LocalWorkers(placements, factory, environment=environment))


@pytest.fixture(scope="module", params=["indextts", "indextts2"])
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    name = request.param
    engine: type[SpeechEngine] = IndexTts if name == "indextts" else IndexTts2
    if engine is IndexTts2 and (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip("published for Linux on x86_64 only")
    kept = os.environ.get("ENGINE_ENVIRONMENTS")
    home = Path(kept) if kept else tmp_path_factory.mktemp("environments")
    assert engine.environment is not None
    environment = Environment(name, engine.environment, home)
    environment.install(
        agree=lambda notice: "bilibili" in notice, on_line=lambda line: None, variables=os.environ
    )
    folder, hub = tmp_path_factory.mktemp(name), tmp_path_factory.mktemp("hub")
    script = Path(__file__).with_name("build_indextts.py")
    given = [folder, hub / "hub"] if engine is IndexTts2 else [folder]
    done = subprocess.run(
        [environment.python, "-I", script, *given], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (folder / "voices").mkdir()
    _write_buzz(folder / "voices" / "low.wav", 110)
    _write_buzz(folder / "voices" / "high.wav", 230)
    tight = TightIndexTts2 if engine is IndexTts2 else TightIndexTts
    variables = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(hub)}
    return Installed(engine, tight, home, folder, variables, 50 if engine is IndexTts2 else 25)


def _write_buzz(path: Path, pitch: float) -> None:
    time = np.arange(3 * 24000) / 24000
    buzz = sum(np.sin(2 * np.pi * pitch * k * time) / k for k in range(1, 20))
    loud = 6000 * buzz * (1 + np.sin(2 * np.pi * 3 * time))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(24000)
        file.writeframes(loud.astype("<i2").tobytes())


def _speak(pool: WorkerPool, *batch: Utterance) -> list[Take]:
    outcomes = sorted(pool.run(batch, cost=lambda one: one.cost), key=lambda one: one.index)
    assert [outcome.failure for outcome in outcomes] == [None] * len(batch)
    return [decode_take(outcome.result.data) for outcome in outcomes if outcome.result]


@pytest.fixture(scope="module")
def pool(installed: Installed) -> Iterator[WorkerPool]:
    with installed.open_pool() as pool:
        yield pool


@pytest.fixture(scope="module")
def plain(pool: WorkerPool) -> Take:
    return _speak(pool, UTTERANCE)[0]


def test_a_batch_of_voices_seeds_and_languages(
    pool: WorkerPool, plain: Take, installed: Installed
) -> None:
    last = "es" if installed.engine is IndexTts else "zh"
    batch = [
        UTTERANCE,
        Utterance(UTTERANCE.text, voice="high", seed=3),
        Utterance(UTTERANCE.text, voice="low", seed=4),
        Utterance("hola." if last == "es" else "\u4f60\u597d\u3002", last, voice="low", seed=3),
    ]
    takes = _speak(pool, *batch)
    for take in takes:
        assert take.rate == 22050
        assert len(take.samples) > 2000
        assert np.isfinite(take.samples).all()
    assert np.array_equal(takes[0].samples, plain.samples)
    for other in takes[1:]:
        assert not np.array_equal(other.samples, plain.samples)


def test_two_processes_make_the_same_takes(
    pool: WorkerPool, plain: Take, installed: Installed
) -> None:
    batch = [replace(UTTERANCE, seed=seed) for seed in (3, 4, 5, 6)]
    with installed.open_pool(workers=2) as two:
        takes = _speak(two, *batch)
    assert np.array_equal(takes[0].samples, plain.samples)
    for take, alone in zip(takes, _speak(pool, *batch), strict=True):
        np.testing.assert_array_equal(take.samples, alone.samples)


@pytest.mark.parametrize(
    "options",
    [
        {"emo_audio_prompt": "high"},
        {"emo_vector": "0,0,0.7,0,0,0,0,0"},
        {"emo_audio_prompt": "high", "emo_alpha": 0.3},
        {"temperature": 1.6},
        {"top_k": 2},
        {"top_p": 0.1},
        {"repetition_penalty": 2.0},
        {"num_beams": 2},
        {"emo_text": "w1 w2 w3"},
    ],
    ids=lambda options: "-".join(options),
)
def test_every_option_changes_the_sound(
    options: dict[str, Any], installed: Installed, plain: Take
) -> None:
    if "emo_text" in options and installed.engine is IndexTts:
        pytest.skip("version 2.5 has no emotion by text")
    with installed.open_pool(**options) as pool:
        (take,) = _speak(pool, UTTERANCE)
    assert not np.array_equal(take.samples, plain.samples)


def test_duration_and_limits_set_the_length(installed: Installed, plain: Take) -> None:
    with installed.open_pool(duration=1.5) as pool:
        longer, stretched = _speak(
            pool, UTTERANCE, Utterance(UTTERANCE.text, voice="low", seed=3, rate=1.5)
        )
    assert len(longer.samples) == pytest.approx(1.5 * len(plain.samples), rel=0.05)
    assert len(stretched.samples) == pytest.approx(len(plain.samples), rel=0.05)
    with installed.open_pool(max_mel_tokens=20) as pool:
        (shorter,) = _speak(pool, UTTERANCE)
    second = 22050 / installed.tokens_per_second
    assert len(shorter.samples) <= 1.05 * 20 * second
    assert len(plain.samples) > len(shorter.samples)
    long = Utterance("one and two and three and four and five and six and seven.", voice="low")
    with installed.open_pool(max_text_tokens_per_sentence=20) as pool:
        (split,) = _speak(pool, long)
    # Each sentence has its own limit.
    assert len(split.samples) > 1.5 * 40 * second


def test_files_that_do_not_fit_are_named_before_anything_loads(
    installed: Installed, tmp_path: Path
) -> None:
    folder, broken = installed.folder, tmp_path / "broken"
    shutil.copytree(folder, broken)
    other = replace(installed, folder=broken)
    config = (broken / "config.yaml").read_text()
    wrong = config.replace("number_text_tokens: 2000", "number_text_tokens: 3000")
    (broken / "config.yaml").write_text(wrong)
    with pytest.raises(Exception, match=r"gpt\.pth does not fit config\.yaml: text_embedding"):
        _speak(other.open_pool(), UTTERANCE)
    (broken / "config.yaml").write_text(config)
    (broken / "s2mel.pth").write_bytes((folder / "s2mel.pth").read_bytes()[:5000])
    with pytest.raises(Exception, match=r"s2mel\.pth cannot be read"):
        _speak(other.open_pool(), UTTERANCE)
    shutil.copy(folder / "s2mel.pth", broken)
    name = "hf_cache/bigvgan/config.json"
    if installed.engine is IndexTts2:
        empty = replace(other, variables=installed.variables | {"HF_HOME": str(tmp_path)})
        with pytest.raises(Exception, match=r"cache of the model hub: facebook/w2v-bert-2\.0"):
            _speak(empty.open_pool(), UTTERANCE)
        name = "qwen0.6bemo4-merge/config.json"
    (broken / name).unlink()
    with pytest.raises(MissingWeightsError, match=name):
        WeightsCache().find(installed.engine, broken, installed.home)


def test_memory_that_runs_out_loses_no_utterance(pool: WorkerPool, installed: Installed) -> None:
    batch = [UTTERANCE, Utterance("one more line.", voice="low", seed=5)]
    plain, report = _speak(pool, *batch), RunReport()
    with installed.open_pool(engine=installed.tight) as tight:
        outcomes = list(tight.run(batch, cost=lambda one: one.cost, report=report))
    assert report.num_out_of_memory == 2
    assert [outcome.failure for outcome in outcomes] == [None] * len(batch)
    for outcome, take in zip(sorted(outcomes, key=lambda one: one.index), plain, strict=True):
        assert outcome.result is not None
        np.testing.assert_array_equal(decode_take(outcome.result.data).samples, take.samples)


# -- from the commands and over HTTP ---------------------------------------------------------------


@pytest.fixture
def person(installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a person who installed the engine and its weights."""
    cache = tmp_path / "home" / ".cache" / "anyrig"
    (cache / "models").mkdir(parents=True)
    (cache / "models" / installed.engine.name).symlink_to(installed.folder)
    (cache / "environments").symlink_to(installed.home)
    for name, value in installed.variables.items():
        monkeypatch.setenv(name, value)
    return cache


@pytest.mark.usefixtures("person")
def test_lines_and_one_of_them_again(anyrig: Anyrig, installed: Installed) -> None:
    Path("talk.txt").write_text("Hello there.\nAnd again.\n", encoding="utf-8")
    options = [f"--set={name}={value}" for name, value in SHORT.items()]
    speak = ("speak", "--lines", "talk.txt", "--engine", installed.engine.name, "--voice", "low",
             "--language", "en", "--json", *options)  # fmt: skip
    done = anyrig(*speak)
    assert done.returncode == 0, done.stderr
    files = [Path("talk") / f"000{number}.wav" for number in (1, 2)]
    first = [file.read_bytes() for file in files]
    again = anyrig(*speak, "--only", "2", "--seed", "9")
    assert again.returncode == 0, again.stderr
    second = [file.read_bytes() for file in files]
    assert second[0] == first[0]
    assert second[1] != first[1]


@pytest.mark.usefixtures("person")
def test_a_book(anyrig: Anyrig, installed: Installed) -> None:
    Path("story.txt").write_text("Chapter 1\n\nHello there.\n\nAnd again.\n", encoding="utf-8")
    options = [f"--set={name}={value}" for name, value in SHORT.items()]
    done = anyrig("book", "story.txt", "-o", "story.m4b", "--engine", installed.engine.name,
                  "--voice", "high", "--language", "en", "--json", *options)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["chapters"]
    with open_audio(Path("story.m4b")) as audio:
        assert audio.duration_s is not None
        assert audio.duration_s > 1


@pytest.mark.usefixtures("person")
def test_requests_over_http(make_app: MakeApp, installed: Installed) -> None:  # noqa: F811
    """Without a cache, so that the same audio is made twice."""
    with TestClient(make_app("--no-cache"), base_url=HERE) as client:

        def speak(voice: str = "low", seed: int = 3, **options: object) -> bytes:
            body = {
                "model": installed.engine.name, "voice": voice, "input": UTTERANCE.text,
                "seed": seed, "language": "en", "response_format": "pcm",
                "options": SHORT | options,
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
