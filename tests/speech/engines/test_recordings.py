"""XTTS and IndexTTS2: what they say of themselves and find, without their environments."""

from __future__ import annotations

import json
import pickle
import sys
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from anyrig.errors import (
    InvalidInputError,
    MissingPackageError,
    MissingWeightsError,
    UnspeakableTextError,
)
from anyrig.placement import Placement
from anyrig.speech.choose import WeightsCache
from anyrig.speech.engine import EngineWeights, SpeechEngine, Utterance
from anyrig.speech.engines import indextts
from anyrig.speech.engines.indextts import IndexTts, IndexTts2, parse_emotion
from anyrig.speech.engines.xtts import Xtts, list_pickled_names, split_text
from anyrig.speech.environments import Environment
from anyrig.speech.voices import choose_voice

ENGINES: list[type[SpeechEngine]] = [Xtts, IndexTts, IndexTts2]
XTTS_FILES = ("config.json", "model.pth", "vocab.json")
INDEXTTS_FILES = (*indextts._FILES, "voices/anna.wav")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Environments that look ready: stamps, and something where their Python is."""
    home = tmp_path / "environments"
    for engine in ENGINES:
        assert engine.environment is not None
        environment = Environment(engine.info.name, engine.environment, home)
        environment.python.parent.mkdir(parents=True)
        environment.python.symlink_to(sys.executable)
        stamp = {
            "recipe": environment.fingerprint, "python": "3.12.1", "kind": "cuda",
            "versions": {"torch": "2.8.0"},
        }  # fmt: skip
        (environment.folder / "anyrig-environment.json").write_text(json.dumps(stamp))
    return home


def _write(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def _find(engine: type[SpeechEngine], folder: Path, home: Path) -> EngineWeights:
    return WeightsCache().find(engine, folder, home)


class _Trap:
    """A pickle that would write a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def _save(path: Path, value: object) -> None:
    """As torch saves: a pickle in an archive."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(value, protocol=2))


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)
def test_what_is_missing_is_named(engine: type[SpeechEngine], home: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingPackageError, match="is not installed") as absent:
        _find(engine, tmp_path, tmp_path / "none")
    assert absent.value.hint == engine.info.install
    with pytest.raises(MissingWeightsError, match="were not found in") as missing:
        _find(engine, tmp_path, home)
    assert engine.info.weights in missing.value.hint


def test_xtts_reads_the_names_of_its_speakers_and_runs_nothing(home: Path, tmp_path: Path) -> None:
    folder = _write(tmp_path / "w", *XTTS_FILES)
    with pytest.raises(MissingWeightsError, match="has no voice"):
        _find(Xtts, folder, home)
    trap = tmp_path / "sprung"
    _save(folder / "speakers_xtts.pth", {"Ana Florence": {"x": 1}, "Viktor Eka": _Trap(trap)})
    _write(folder, "voices/anna.wav", "voices/notes.txt")
    weights = _find(Xtts, folder, home)
    assert [voice.name for voice in weights.voices] == ["Ana Florence", "Viktor Eka", "anna"]
    assert not trap.exists()
    assert weights.version == "1/torch-2.8.0"
    assert weights.torch_flavour == "cuda"
    (folder / "speakers_xtts.pth").write_bytes(b"no archive")
    with pytest.raises(MissingWeightsError, match="is damaged"):
        list_pickled_names(folder / "speakers_xtts.pth")


def test_a_few_bytes_of_a_speakers_file_do_not_ask_for_memory(tmp_path: Path) -> None:
    path = tmp_path / "speakers_xtts.pth"
    # An empty dictionary, noted under the number 2 ** 23: a table of so many entries is 128 MB.
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}r" + (1 << 23).to_bytes(4, "little") + b".")
    tracemalloc.start()
    try:
        assert list_pickled_names(path) == []
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_a_voice_of_many_languages_is_picked_for_each(home: Path, tmp_path: Path) -> None:
    voices = _find(IndexTts, _write(tmp_path / "w", *INDEXTTS_FILES), home).voices
    names = [choose_voice(voices, Utterance("x", code)).name for code in ("en", "zh-CN")]
    assert names == ["anna"] * 2
    with pytest.raises(UnspeakableTextError, match="no installed voice speaks fr"):
        choose_voice(voices, Utterance("x", "fr"))


def test_a_folder_of_the_other_version_is_recognised(home: Path, tmp_path: Path) -> None:
    folder = _write(tmp_path / "w", *indextts._FILES_2, "voices/anna.wav")
    assert _find(IndexTts2, folder, home).voices[0].name == "anna"
    with pytest.raises(MissingWeightsError, match=r"has the files of IndexTTS 2\.0") as error:
        _find(IndexTts, folder, home)
    assert "indextts2" in str(error.value.hint)


def test_an_engine_that_is_not_published_for_this_system_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    environment = Environment("indextts2", IndexTts2.environment, tmp_path / "new")
    with pytest.raises(MissingPackageError, match=r"for linux on x86_64 only; this is darwin on"):
        environment.install(agree=lambda _: True, on_line=print, variables={})
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("vector", "problem"),
    [
        ("0.1,0.2", "has 2 numbers"),
        ("0,0,x,0,0,0,0,0", "not a list of numbers"),
        ("0,0,0.5,0,0,0,0,0.4", "sum above 0.8"),
        ("0,0,-0.1,0,0,0,0,0", "negative"),
        ("0,0,nan,0,0,0,0,0", "negative"),
    ],
)
def test_emotions_that_are_none(vector: str, problem: str) -> None:
    with pytest.raises(InvalidInputError, match=problem) as error:
        parse_emotion(vector)
    assert "melancholic" in str(error.value.hint)
    assert parse_emotion("0,0,0.4,0,0,0,0,0.4") == [0, 0, 0.4, 0, 0, 0, 0, 0.4]


def test_a_main_environment_without_torch_still_places_it(
    home: Path, tmp_path: Path, on_cpu: Placement
) -> None:
    """Torch is in the other environment: a CPU that only ONNX Runtime uses here will do."""
    from dataclasses import replace

    from anyrig.devices.choose import DeviceChoice
    from anyrig.devices.discovery import discover
    from anyrig.devices.reasons import DeviceReason, ReasonCode
    from anyrig.placement import plan_placement

    machine = discover()
    onnx = tuple(backend for backend in machine.cpu_device.backends if backend.library == "onnx")
    cpu = replace(machine.cpu_device, backends=onnx)
    bare = replace(machine, cpu_device=cpu, gpus=())
    weights = _find(IndexTts, _write(tmp_path / "w", *INDEXTTS_FILES), home)
    plan = plan_placement(
        bare, DeviceChoice((cpu,), "flag", DeviceReason(ReasonCode.NO_GPU)), IndexTts.need(weights)
    )
    assert [placement.workers for placement in plan.placements] == [1]


@pytest.mark.parametrize(
    ("text", "limit", "parts"),
    [
        ("one two three four", 9, ["one two", "three", "four"]),
        ("well, that is so", 12, ["well,", "that is so"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
    ],
)
def test_long_texts_are_split_below_a_limit(text: str, limit: int, parts: list[str]) -> None:
    assert list(split_text(text, limit)) == parts
