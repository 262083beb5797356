"""Hosted engines: what they say of themselves and find, without an environment being started."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from anyrig.errors import MissingPackageError, MissingWeightsError
from anyrig.placement import Placement
from anyrig.speech.engines.hosted import IndexTts, VibeVoiceRealtime, Xtts
from anyrig.speech.hosting import environments
from anyrig.speech.hosting.engine import Hosted, device_word
from anyrig.speech.hosting.recipes import NAMES, RECIPES
from anyrig.speech.voices import pick

KINDS: list[type[Hosted]] = [Xtts, IndexTts, VibeVoiceRealtime]


@pytest.fixture
def homes(tmp_path: Path) -> Path:
    """Environments that look ready: stamps, and something where their Python is."""
    home = tmp_path / "environments"
    for name in NAMES:
        python = environments.python_of(home / name)
        python.parent.mkdir(parents=True)
        python.symlink_to(sys.executable)
        stamp = {"recipe": RECIPES[name].fingerprint, "versions": {"torch": "2.8.0"}}
        (home / name / "anyrig-environment.json").write_text(json.dumps(stamp))
    return home


def _filled(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_what_is_missing_is_said(kind: type[Hosted], homes: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingPackageError, match="has no environment yet") as absent:
        kind.find_weights(tmp_path)
    assert absent.value.hint == kind.info.install
    with pytest.raises(MissingWeightsError, match="were not found in") as needs:
        kind.find_weights(tmp_path, environments=homes)
    assert kind.info.weights in needs.value.hint


def test_an_older_environment_is_made_anew(homes: Path, tmp_path: Path) -> None:
    (homes / "xtts" / "anyrig-environment.json").write_text('{"recipe": "older"}')
    with pytest.raises(MissingPackageError, match="another release"):
        Xtts.find_weights(tmp_path, environments=homes)


def test_xtts_has_speakers_once_they_are_converted(homes: Path, tmp_path: Path) -> None:
    folder = _filled(tmp_path / "w", "config.json", "model.pth", "vocab.json", "speakers_xtts.pth")
    with pytest.raises(MissingWeightsError, match="has no voice") as needs:
        Xtts.find_weights(folder, environments=homes)
    assert "anyrig engines convert xtts" in needs.value.hint
    assert [path.name for path in Xtts.pickles(folder)] == ["speakers_xtts.pth"]
    speakers = '{"value": {"dict": {"Ana Florence": {}, "Viktor Eka": {}}}}'
    (folder / "speakers_xtts.json").write_text(speakers)
    _filled(folder, "voices/anna.wav", "voices/notes.txt")
    found = Xtts.find_weights(folder, environments=homes)
    assert [voice.name for voice in found.voices] == ["Ana Florence", "Viktor Eka", "anna"]
    assert Xtts.pickles(folder) == []
    assert found.version == "1/torch-2.8.0"
    assert found.environment == str(homes / "xtts")


def test_a_voice_of_many_languages_is_picked_for_each(homes: Path, tmp_path: Path) -> None:
    from anyrig.errors import UnspeakableTextError
    from anyrig.speech.engine import Utterance

    folder = _filled(tmp_path / "w", *IndexTts.files, "voices/anna.wav")
    voices = IndexTts.find_weights(folder, environments=homes).voices
    assert [pick(voices, Utterance("x", language)).name for language in ("en", "zh-CN")] == [
        "anna"
    ] * 2
    assert pick(voices, Utterance("x", "zh", voice="anna")).name == "anna"
    with pytest.raises(UnspeakableTextError, match="no installed voice speaks fr"):
        pick(voices, Utterance("x", "fr"))


def test_vibevoice_s_presets_speak_the_language_of_their_name(homes: Path, tmp_path: Path) -> None:
    folder = _filled(
        tmp_path / "w", *VibeVoiceRealtime.files, "model.safetensors", "voices/en-Carter_man.pt"
    )
    with pytest.raises(MissingWeightsError, match="has no voice"):
        VibeVoiceRealtime.find_weights(folder, environments=homes)
    assert [path.name for path in VibeVoiceRealtime.pickles(folder)] == ["en-Carter_man.pt"]
    names = ("en-Carter_man", "in-Samuel_man", "jp-Spk0_man", "sp-Spk1_man", "voice")
    for name in names:
        _filled(folder, f"voices/{name}.json", f"voices/{name}.safetensors")
    found = VibeVoiceRealtime.find_weights(folder, environments=homes)
    assert [voice.language for voice in found.voices] == ["en", "en", "ja", "es", "en"]
    assert VibeVoiceRealtime.pickles(folder) == []


def test_devices_have_torch_s_words(on_cpu: Placement) -> None:
    from dataclasses import replace

    def word(vendor: str) -> str:
        gpu = replace(on_cpu.device, kind="gpu", vendor=vendor)
        return device_word(replace(on_cpu, device=gpu))

    assert device_word(on_cpu) == "cpu"
    words = [word(vendor) for vendor in ("nvidia", "amd", "intel", "apple", "other")]
    assert words == ["cuda:0", "cuda:0", "xpu:0", "mps", "cpu"]


def test_a_main_environment_without_torch_still_places_it(
    homes: Path, tmp_path: Path, on_cpu: Placement
) -> None:
    """Torch is in the other environment: a CPU that only ONNX Runtime drives here will do."""
    from dataclasses import replace

    from anyrig.devices.choose import DeviceChoice
    from anyrig.devices.discover import discover
    from anyrig.devices.reasons import DeviceReason, ReasonCode
    from anyrig.placement import plan_placement

    machine = discover()
    drives = tuple(backend for backend in machine.cpu_device.backends if backend.library == "onnx")
    cpu = replace(machine.cpu_device, backends=drives)
    bare = replace(machine, cpu_device=cpu, gpus=())
    found = IndexTts.find_weights(
        _filled(tmp_path / "w", *IndexTts.files, "voices/anna.wav"), environments=homes
    )
    placed = plan_placement(
        bare, DeviceChoice((cpu,), "flag", DeviceReason(ReasonCode.NO_GPU)), IndexTts.need(found)
    )
    assert [device_word(placement) for placement in placed.placements] == ["cpu"]
    assert placed.placements[0].workers == 1
