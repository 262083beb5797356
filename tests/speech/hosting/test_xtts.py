"""XTTS of coqui-tts, in the environment that its recipe makes, on a tiny random checkpoint.

The environment takes minutes and gigabytes: HOSTED_ENVIRONMENTS names a folder to keep it in.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anyrig.errors import MissingWeightsError, UnsafePickleError
from anyrig.speech.engine import Utterance, resolve_options
from anyrig.speech.engines.hosted import Xtts
from anyrig.speech.hosting import environments
from anyrig.speech.hosting.client import Client
from anyrig.speech.hosting.convert import convert
from anyrig.speech.hosting.recipes import RECIPES
from tests.speech.conftest import place_on_cpu

pytestmark = pytest.mark.slow
RECIPE = RECIPES["xtts"]


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of environments with that of XTTS."""
    kept = os.environ.get("HOSTED_ENVIRONMENTS")
    home = Path(kept) if kept else tmp_path_factory.mktemp("environments")
    environments.install(
        "xtts", home, yes=lambda notice: "Coqui" in notice, tell=lambda line: None,
        environment=os.environ,
    )  # fmt: skip
    return home


@pytest.fixture(scope="module")
def built(homes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint, pickled speakers, and a recording made by us."""
    folder = tmp_path_factory.mktemp("xtts")
    python = environments.python_of(homes / "xtts")
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


@pytest.fixture(scope="module")
def weights(built: Path, homes: Path) -> Path:
    """The same with its speakers converted."""
    asked: list[str] = []
    told: list[str] = []

    def yes(question: str) -> bool:
        asked.append(question)
        return True

    made = convert(
        RECIPE, Xtts.pickles(built), homes / "xtts", yes=yes, tell=told.append,
        environment=os.environ,
    )  # fmt: skip
    assert [path.name for path in made] == ["speakers_xtts.safetensors", "speakers_xtts.json"]
    assert len(asked) == 1  # plain tensors: no second question
    assert told == ["converted speakers_xtts.pth"]
    assert Xtts.pickles(built) == []
    return built


@pytest.fixture(scope="module")
def xtts(weights: Path, homes: Path) -> Iterator[Xtts]:
    found = Xtts.find_weights(weights, environments=homes)
    options: dict[str, Any] = resolve_options(Xtts.info, {})
    made = Xtts(place_on_cpu(), folder=found.folder, environment=found.environment, **options)
    yield made
    made.close()


def test_lines_of_several_voices_in_one_batch(xtts: Xtts) -> None:
    """In order, at its rate, the same alone as in company; another seed is another take."""
    lines = [
        Utterance("hello there.", voice="ours", seed=3),
        Utterance("and again.", voice="Viktor Eka", seed=4),
        Utterance("hola.", "es", voice="ours", seed=5),
        Utterance("hello there.", voice="ours", seed=9),
    ]  # fmt: skip
    takes = xtts.run(lines)
    assert xtts.sample_rate == 24000
    for take in takes:
        assert take.rate == 24000
        assert len(take.samples) > 2000
        assert np.isfinite(take.samples).all()
    assert not np.array_equal(takes[0].samples, takes[3].samples)
    for line, take in zip(lines, takes, strict=True):
        (alone,) = xtts.run([line])
        np.testing.assert_array_equal(alone.samples, take.samples)


def test_parts_stream(weights: Path, homes: Path) -> None:
    """With its option, stream and run are the same samples, in several parts."""
    options: dict[str, Any] = resolve_options(Xtts.info, {"stream": True})
    made = Xtts(place_on_cpu(), folder=str(weights), environment=str(homes / "xtts"), **options)
    line = Utterance("hello there.", voice="Ana Florence", seed=2)
    parts = [part.samples for part in made.stream(line)]
    assert len(parts) > 1
    np.testing.assert_array_equal(np.concatenate(parts), made.run([line])[0].samples)
    made.close()


def test_speakers_still_pickled_are_not_read(built: Path, homes: Path, tmp_path: Path) -> None:
    """Without a conversion and without recordings there is no voice, and the way out is said."""
    for name in (*Xtts.files, "speakers_xtts.pth"):
        shutil.copy(built / name, tmp_path / name)
    with pytest.raises(MissingWeightsError) as needs:
        Xtts.find_weights(tmp_path, environments=homes)
    assert "anyrig engines convert xtts" in needs.value.hint


def test_a_pickle_with_code_is_not_read_without_a_yes(built: Path, homes: Path) -> None:
    python = environments.python_of(homes / "xtts")
    asked: list[str] = []

    def only_first(question: str) -> bool:
        asked.append(question)
        return len(asked) == 1

    with Client(python, "xtts", os.environ) as client, pytest.raises(UnsafePickleError):
        client.convert(built / "trap.pt", built / "trap")
    told: list[str] = []
    made = convert(
        RECIPE, [built / "trap.pt"], homes / "xtts", yes=only_first, tell=told.append,
        environment=os.environ,
    )  # fmt: skip
    assert made == []
    assert told == ["skipped trap.pt"]
    assert "run any code" in asked[1]
    assert not (built / "sprung").exists()
    assert not (built / "trap.json").exists()


def test_caches_come_back_from_safetensors(built: Path, homes: Path) -> None:
    """A bundle as VibeVoice's voices are: written after two yeses, rebuilt without the pickle."""
    convert(
        RECIPE, [built / "bundle.pt"], homes / "xtts", yes=lambda question: True,
        tell=lambda line: None, environment=os.environ,
    )  # fmt: skip
    described = json.loads((built / "bundle.json").read_text())["value"]
    assert described["dict"]["lm"]["name"] == "BaseModelOutputWithPast"
    code = (
        "import importlib.util, sys, torch\n"
        f"info = importlib.util.spec_from_file_location('host', {str(_host())!r})\n"
        "host = importlib.util.module_from_spec(info); info.loader.exec_module(host)\n"
        f"new = host.read_voice({str(built / 'bundle')!r}, 'cpu')\n"
        f"old = torch.load({str(built / 'bundle.pt')!r}, weights_only=False)\n"
        "for key in ('lm', 'neg_lm'):\n"
        "    assert type(new[key]) is type(old[key])\n"
        "    assert torch.equal(new[key].last_hidden_state, old[key].last_hidden_state)\n"
        "    a, b = (host._layers(x[key].past_key_values) for x in (new, old))\n"
        "    assert len(a) == len(b) == 3\n"
        "    assert all(torch.equal(p, q) for x, y in zip(a, b) for p, q in zip(x, y))\n"
        "print('same')\n"
    )
    python = environments.python_of(homes / "xtts")
    done = subprocess.run([python, "-I", "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "same", done.stderr


def _host() -> Path:
    from anyrig.speech.hosting import host

    return Path(host.__file__)
